// How much of something may be used in a time.
//
// A bucket holds `amount`, starts full, and is filled again at a constant rate: "60/min" lets 60
// requests through at once, and then one each second. What is taken may be more than there is:
// the level falls below zero, and nothing is let through until it has risen above zero again. So
// work whose cost is known only afterwards can be charged for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace sluice::web {

struct Rate {
  double amount = 0.0;  ///< what the bucket holds; 0: no limit
  double per_second = 0.0;
  bool limited() const { return amount > 0.0; }
  bool operator==(const Rate&) const = default;
};

/// Used by one thread at a time.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;

  TokenBucket(const Rate& rate, Clock::time_point now)
      : rate_(rate), level_(rate.amount), filled_(now) {}

  const Rate& rate() const { return rate_; }

  /// How long until `amount` is there; 0 when it is.
  std::chrono::milliseconds wait_for(double amount, Clock::time_point now) {
    fill(now);
    if (!rate_.limited() || level_ >= amount) return std::chrono::milliseconds(0);
    const double seconds = (amount - level_) / rate_.per_second;
    return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000.0)));
  }

  void take(double amount, Clock::time_point now) {
    fill(now);
    if (rate_.limited()) level_ -= amount;
  }

  /// Another rate; what has been used stays used.
  void change(const Rate& rate, Clock::time_point now) {
    fill(now);
    level_ =
        rate_.limited() ? std::min(level_ + rate.amount - rate_.amount, rate.amount) : rate.amount;
    rate_ = rate;
  }

 private:
  void fill(Clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now - filled_).count();
    if (seconds <= 0.0) return;
    filled_ = now;
    level_ = std::min(rate_.amount, level_ + seconds * rate_.per_second);
  }

  Rate rate_;
  double level_;
  Clock::time_point filled_;
};

}  // namespace sluice::web
