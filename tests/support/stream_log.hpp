// Records a stream's events and waits for its end, with the rules of a stream's life checked:
// numbers without gaps, nothing after the terminal event, texts that join.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "actors/stream_service.hpp"

namespace sluice::test {

/// Generous: only a hang takes so long.
inline constexpr std::chrono::seconds kPatience{60};

/// Waits until `condition` holds; false after kPatience.
template <class Condition>
bool eventually(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class StreamLog {
 public:
  void add(const Event& event) {
    const std::lock_guard lock(mutex_);
    if (terminal_ != 0) ++after_terminal_;
    if (std::holds_alternative<HeartbeatEvent>(event)) {
      ++heartbeats_;
    } else if (number_of(event) != last_number_ + 1) {
      ++gaps_;
    }
    last_number_ = number_of(event);
    if (const auto* token = std::get_if<TokenEvent>(&event)) {
      text_ += token->text;
      for (const TokenPiece& piece : token->pieces) ids_.push_back(piece.id);
    }
    if (is_terminal(event)) ++terminal_;
    events_.push_back(event);
    changed_.notify_all();
  }

  void handler_destroyed() {
    const std::lock_guard lock(mutex_);
    destroyed_ = true;
    changed_.notify_all();
  }

  bool wait_for_end() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return terminal_ > 0; });
  }
  bool wait_for_destruction() const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return destroyed_; });
  }
  bool wait_for_tokens(std::size_t count) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] {
      return ids_.size() >= count || terminal_ > 0;
    }) && ids_.size() >= count;
  }

  std::string text() const { return locked(text_); }
  std::vector<TokenId> ids() const { return locked(ids_); }
  std::vector<Event> events() const { return locked(events_); }
  std::uint64_t last_number() const { return locked(last_number_); }
  int heartbeats() const { return locked(heartbeats_); }
  int terminals() const { return locked(terminal_); }
  /// One terminal event, last, and no gap in the numbers.
  bool sound() const {
    const std::lock_guard lock(mutex_);
    return terminal_ == 1 && after_terminal_ == 0 && gaps_ == 0;
  }
  /// The rule's name, or "error:CODE"; empty while running.
  std::string outcome() const {
    const std::lock_guard lock(mutex_);
    if (terminal_ == 0) return {};
    for (const Event& event : events_) {
      if (const auto* done = std::get_if<DoneEvent>(&event)) return std::string(name(done->rule));
      if (const auto* error = std::get_if<ErrorEvent>(&event)) return "error:" + error->code;
    }
    return {};
  }
  std::string error_message() const {
    const std::lock_guard lock(mutex_);
    for (const Event& event : events_) {
      if (const auto* error = std::get_if<ErrorEvent>(&event)) return error->message;
    }
    return {};
  }
  DoneEvent done() const {
    const std::lock_guard lock(mutex_);
    for (const Event& event : events_) {
      if (const auto* done = std::get_if<DoneEvent>(&event)) return *done;
    }
    return {};
  }

 private:
  template <class T>
  T locked(const T& value) const {
    const std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Event> events_;
  std::string text_;
  std::vector<TokenId> ids_;
  std::uint64_t last_number_ = 0;
  int heartbeats_ = 0;
  int terminal_ = 0;
  int after_terminal_ = 0;
  int gaps_ = 0;
  bool destroyed_ = false;
};

/// A handler that records into `log` and tells it when the handler is destroyed.
inline EventHandler recorder(std::shared_ptr<StreamLog> log) {
  const std::shared_ptr<StreamLog> guard(log.get(),
                                         [log](StreamLog* l) { l->handler_destroyed(); });
  return [guard](const Event& event) { guard->add(event); };
}

}  // namespace sluice::test
