// One stream as its listener sees it, with everything checked that a stream promises.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/stream_service.hpp"

namespace sluice::soak {

/// What a prompt leads to when nobody disturbs it, as far as any stream may go.
struct Reference {
  std::vector<TokenId> ids;
  std::string text;
};

/// Counts promises that were broken, and says what the first few were. Safe from any thread.
class Faults {
 public:
  void report(const std::string& what);
  std::uint64_t count() const { return count_; }

 private:
  std::atomic<std::uint64_t> count_{0};
};

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using Clock = std::chrono::steady_clock;

  /// `alive` counts handlers that the engine still holds.
  Listener(std::shared_ptr<const Reference> reference, Faults& faults,
           std::atomic<std::int64_t>& alive);

  /// For the engine; once.
  EventHandler handler();

  bool ended() const;
  std::uint64_t last_number() const;
  std::string outcome() const;  ///< rule, or "error:CODE"; empty while running
  Clock::time_point born() const { return born_; }

 private:
  void on_event(const Event& event);
  void check_end(const Event& event);
  bool is_prefix() const;

  const std::shared_ptr<const Reference> reference_;
  Faults& faults_;
  std::atomic<std::int64_t>& alive_;
  const Clock::time_point born_ = Clock::now();

  mutable std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::vector<TokenId> ids_;
  std::string text_;
  std::string outcome_;
};

}  // namespace sluice::soak
