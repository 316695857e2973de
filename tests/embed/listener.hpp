// Keeps what one stream says, and lets a test wait for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "sluice/engine.hpp"

namespace sluice::test {

class Listener {
 public:
  /// May outlive the listener.
  v0::EventHandler handler() {
    return [state = state_](const v0::Event& event) {
      v0::Stream acknowledge;
      {
        const std::lock_guard lock(state->mutex);
        state->events.push_back(event);
        if (const auto* token = std::get_if<v0::TokenEvent>(&event)) state->text += token->text;
        acknowledge = state->acknowledge;
      }
      acknowledge.delivered(number_of(event));
      state->changed.notify_all();
    };
  }

  void wait_for_end() {
    wait([](const State& state) {
      return !state.events.empty() && is_terminal(state.events.back());
    });
  }
  void wait_for_text(std::size_t bytes) {
    wait([bytes](const State& state) { return state.text.size() >= bytes; });
  }
  /// Everything so far and from now on (Delivery::kAcknowledged).
  void acknowledge(const v0::Stream& stream) {
    std::uint64_t last = 0;
    {
      const std::lock_guard lock(state_->mutex);
      state_->acknowledge = stream;
      if (!state_->events.empty()) last = number_of(state_->events.back());
    }
    stream.delivered(last);
  }

  std::vector<v0::Event> events() const {
    const std::lock_guard lock(state_->mutex);
    return state_->events;
  }
  std::string text() const {
    const std::lock_guard lock(state_->mutex);
    return state_->text;
  }
  std::uint64_t last_number() const { return number_of(events().back()); }
  bool ended() const {
    const auto all = events();
    return !all.empty() && is_terminal(all.back());
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<v0::Event> events;
    std::string text;
    v0::Stream acknowledge;
  };

  template <class Condition>
  void wait(Condition condition) {
    std::unique_lock lock(state_->mutex);
    if (!state_->changed.wait_for(lock, std::chrono::seconds(100),
                                  [&] { return condition(*state_); })) {
      throw std::runtime_error("the stream did not get there");
    }
  }

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace sluice::test
