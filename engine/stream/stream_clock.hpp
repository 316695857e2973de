// The times of one stream: its time limit, its heartbeats, and what `done` reports.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "engine/stream/events.hpp"

namespace sluice {

class StreamClock {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  /// `time_limit` and `heartbeat_interval` of 0 are off.
  StreamClock(TimePoint accepted, std::chrono::milliseconds time_limit,
              std::chrono::milliseconds heartbeat_interval)
      : accepted_(accepted),
        time_limit_(after(accepted, time_limit)),
        heartbeat_interval_(heartbeat_interval),
        last_sent_(accepted) {}

  TimePoint accepted() const { return accepted_; }

  /// The sequence left the queue.
  void work_began(TimePoint now) {
    if (!began_) began_ = now;
  }
  void token_came(TimePoint now) {
    if (!first_token_) first_token_ = now;
    last_token_ = now;
  }
  /// Something was sent to the listener.
  void sent(TimePoint now) { last_sent_ = now; }

  bool time_over(TimePoint now) const { return now >= time_limit_; }
  bool silent_too_long(TimePoint now) const {
    return now >= after(last_sent_, heartbeat_interval_);
  }
  TimePoint next_deadline(bool with_time_limit) const {
    const TimePoint heartbeat = after(last_sent_, heartbeat_interval_);
    return with_time_limit ? std::min(heartbeat, time_limit_) : heartbeat;
  }

  Timing timing(TimePoint now, std::int64_t num_tokens) const {
    Timing timing;
    timing.queued = since_accepted(began_.value_or(now));
    if (first_token_) timing.first_token = since_accepted(*first_token_);
    timing.total = since_accepted(now);
    if (num_tokens >= 2 && last_token_ > first_token_) {
      const std::chrono::duration<double> decoding = *last_token_ - *first_token_;
      timing.tokens_per_second = static_cast<double>(num_tokens - 1) / decoding.count();
    }
    return timing;
  }

 private:
  /// Never, for an interval that is off or longer than the clock can count.
  static TimePoint after(TimePoint start, std::chrono::milliseconds interval) {
    const auto most =
        std::chrono::duration_cast<std::chrono::milliseconds>(TimePoint::max() - start);
    if (interval.count() <= 0 || interval >= most) return TimePoint::max();
    return start + interval;
  }

  std::chrono::microseconds since_accepted(TimePoint when) const {
    return std::chrono::duration_cast<std::chrono::microseconds>(when - accepted_);
  }

  TimePoint accepted_;
  TimePoint time_limit_;
  std::chrono::milliseconds heartbeat_interval_;
  TimePoint last_sent_;
  std::optional<TimePoint> began_;
  std::optional<TimePoint> first_token_;
  std::optional<TimePoint> last_token_;
};

}  // namespace sluice
