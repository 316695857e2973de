// How many tokens may still be drawn for one stream.
//
// Every token of the window is in one of four places: with the scheduler (granted, not drawn),
// with a judge (drawn, not judged; see custom_stop.hpp), with the listener (in an event that has
// not been delivered), or free. Free credit is granted whenever the stream may go on, so that
//
//   with_scheduler + with_judge + with_listener <= window    at any time,
//   with_scheduler + with_judge <= ahead                     at any time, and
//   one of the two is an equation                            after every grant.
//
// `ahead` is the window, unless there is a judge who wants less.
//
// A token that is held back is with nobody: its credit is free at once, else a long stop string
// could stall the stream. It costs nothing more when it is shown later.
//
// Worked example, window 4: the scheduler starts with 4. Two tokens arrive, one is shown in event
// 2, one is held back: with_scheduler 2, with_listener 1, so grant() gives 1. Event 2 is
// delivered: grant() gives 1 more, and the scheduler has 4 again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

namespace sluice {

class CreditLedger {
 public:
  /// The whole window starts with the scheduler: it goes with the submission.
  explicit CreditLedger(std::int32_t window) : CreditLedger(window, window) {}
  CreditLedger(std::int32_t window, std::int32_t ahead)
      : window_(std::max(window, 1)),
        ahead_(std::clamp(ahead, 1, window_)),
        with_scheduler_(ahead_) {}

  /// The scheduler drew a token. (One drawn without credit costs nothing here.)
  void token_arrived() { with_scheduler_ = std::max(with_scheduler_ - 1, 0); }
  /// It waits for a judge, until it has been judged.
  void token_waits() { ++with_judge_; }
  void token_judged() { with_judge_ = std::max(with_judge_ - 1, 0); }
  /// Nobody judges any more: the whole window may be used.
  void judge_gone() { ahead_ = window_; }

  /// An event carries `tokens` that arrived with it (not those held back before).
  void event_sent(std::uint64_t number, std::int32_t tokens) {
    if (tokens <= 0) return;
    events_.push_back({number, tokens});
    with_listener_ += tokens;
  }

  /// The listener has every event up to and including `number`.
  void delivered(std::uint64_t number) {
    while (!events_.empty() && events_.front().number <= number) {
      with_listener_ -= events_.front().tokens;
      events_.pop_front();
    }
  }

  /// Hands all free credit to the scheduler and returns how much that is.
  std::int32_t grant() {
    const std::int32_t drawing = with_scheduler_ + with_judge_;
    const std::int32_t free = std::max(std::min(window_ - with_listener_, ahead_) - drawing, 0);
    with_scheduler_ += free;
    return free;
  }

  /// The scheduler is gone, and the credit it had is free again.
  void scheduler_lost() { with_scheduler_ = 0; }

  std::int32_t window() const { return window_; }
  std::int32_t with_scheduler() const { return with_scheduler_; }
  std::int32_t with_judge() const { return with_judge_; }
  std::int32_t with_listener() const { return with_listener_; }

 private:
  struct Sent {
    std::uint64_t number = 0;
    std::int32_t tokens = 0;
  };

  std::int32_t window_;
  std::int32_t ahead_;
  std::int32_t with_scheduler_;
  std::int32_t with_judge_ = 0;
  std::int32_t with_listener_ = 0;
  std::deque<Sent> events_;  ///< not delivered yet, oldest first
};

}  // namespace sluice
