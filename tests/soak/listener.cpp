#include "tests/soak/listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace sluice::soak {

namespace {

constexpr std::uint64_t kFaultsShown = 20;

}  // namespace

void Faults::report(const std::string& what) {
  if (count_++ < kFaultsShown) fmt::print(stderr, "FAULT: {}\n", what);
}

Listener::Listener(std::shared_ptr<const Reference> reference, Faults& faults,
                   std::atomic<std::int64_t>& alive)
    : reference_(std::move(reference)), faults_(faults), alive_(alive) {}

EventHandler Listener::handler() {
  ++alive_;
  // Goes with the last copy of the handler.
  const std::shared_ptr<Listener> guard(
      this, [self = shared_from_this()](Listener* listener) { --listener->alive_; });
  return [guard](const Event& event) { guard->on_event(event); };
}

bool Listener::ended() const {
  const std::lock_guard lock(mutex_);
  return !outcome_.empty();
}

std::uint64_t Listener::last_number() const {
  const std::lock_guard lock(mutex_);
  return last_number_;
}

std::string Listener::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

void Listener::on_event(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (!outcome_.empty()) return faults_.report("an event after the terminal one");
  const bool beat = std::holds_alternative<HeartbeatEvent>(event);
  if (number_of(event) != last_number_ + (beat ? 0 : 1)) {
    faults_.report(fmt::format("event {} follows event {}", number_of(event), last_number_));
  }
  last_number_ = number_of(event);
  if (const auto* token = std::get_if<TokenEvent>(&event)) {
    std::string joined;
    for (const TokenPiece& piece : token->pieces) {
      if (piece.id != kNoToken) ids_.push_back(piece.id);
      joined += piece.text;
    }
    if (joined != token->text) faults_.report("pieces that do not join to their event's text");
    text_ += token->text;
    if (!is_prefix()) faults_.report("a stream with tokens or text that are not its own");
  }
  if (is_terminal(event)) check_end(event);
}

bool Listener::is_prefix() const {
  return ids_.size() <= reference_->ids.size() &&
         std::equal(ids_.begin(), ids_.end(), reference_->ids.begin()) &&
         reference_->text.starts_with(text_);
}

void Listener::check_end(const Event& event) {
  if (const auto* error = std::get_if<ErrorEvent>(&event)) {
    outcome_ = "error:" + error->code;
    return;
  }
  const auto& done = std::get<DoneEvent>(event);
  outcome_ = name(done.rule);
  if (done.usage.completion_tokens != static_cast<Position>(ids_.size())) {
    faults_.report(
        fmt::format("{} tokens delivered, {} counted", ids_.size(), done.usage.completion_tokens));
  }
  if (done.rule == StopRule::kStopString && text_.size() != done.position) {
    faults_.report("text that goes on behind a stop string");
  }
}

}  // namespace sluice::soak
