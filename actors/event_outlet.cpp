#include "actors/event_outlet.hpp"

#include <utility>

namespace sluice {

EventOutlet::EventOutlet(EventHandler handler, std::shared_ptr<StatsBoard> board)
    : handler_(std::move(handler)), board_(std::move(board)) {
  board_->session_opened();
}

EventOutlet::EventOutlet(EventOutlet&& other) noexcept
    : handler_(std::exchange(other.handler_, nullptr)),
      board_(std::exchange(other.board_, nullptr)),
      last_number_(other.last_number_),
      finished_(std::exchange(other.finished_, true)) {}

EventOutlet::~EventOutlet() {
  if (!board_) return;  // moved from
  fail("internal", "The stream was broken off inside the engine; please try again.");
  board_->session_closed();
}

void EventOutlet::push(const Event& event) {
  if (finished_) return;
  last_number_ = number_of(event);
  if (!is_terminal(event)) {
    if (handler_) handler_(event);
    return;
  }
  const auto* done = std::get_if<DoneEvent>(&event);
  // Ended before the handler runs: if it throws, it must not hear a second terminal event.
  const EventHandler handler = std::exchange(handler_, nullptr);
  finish(done != nullptr ? std::string(name(done->rule)) : "error");
  if (done == nullptr) board_->stream_failed(std::get<ErrorEvent>(event).code);
  if (handler) handler(event);
}

void EventOutlet::fail(const std::string& code, const std::string& message) noexcept {
  if (finished_) return;
  try {
    push(ErrorEvent{.number = last_number_ + 1, .code = code, .message = message});
  } catch (...) {  // a listener that breaks its promise harms only itself
  }
}

void EventOutlet::abandon() noexcept {
  if (finished_) return;
  finish(std::string(name(StopRule::kCancelled)));
  handler_ = nullptr;
}

void EventOutlet::finish(const std::string& outcome) noexcept {
  finished_ = true;
  board_->stream_finished(outcome);
}

}  // namespace sluice
