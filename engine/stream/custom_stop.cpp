#include "engine/stream/custom_stop.hpp"

#include <atomic>
#include <exception>

namespace sluice {

struct StopReply::State {
  explicit State(Deliver how) : deliver(std::move(how)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    try {
      answer({.failure = "it let go of a question without an answer"});
    } catch (const std::exception&) {  // nobody is left to tell; the limit ends the wait
    }
  }
  void answer(StopAnswer what) {
    if (!answered.exchange(true) && deliver) deliver(std::move(what));
  }

  Deliver deliver;
  std::atomic<bool> answered{false};
};

StopReply::StopReply(Deliver deliver) : state_(std::make_shared<State>(std::move(deliver))) {}

void StopReply::operator()(StopAnswer answer) const {
  state_->answer(std::move(answer));
}

}  // namespace sluice
