#include "app/stream_printer.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace sluice::app {
namespace {

/// Carries events from the engine's thread to the waiting one.
class EventQueue {
 public:
  void push(const Event& event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
    }
    ready_.notify_one();
  }

  /// The next event, or nothing after `wait`.
  std::optional<Event> pop(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, wait, [&] { return !events_.empty(); })) return std::nullopt;
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;
};

}  // namespace

StreamOutcome run_stream(StreamService& service, GenerateRequest request,
                         const std::function<void(std::string_view)>& on_text,
                         const std::function<bool()>& interrupted) {
  // Shared with the handler, which may outlive a throwing `on_text`.
  const auto queue = std::make_shared<EventQueue>();
  const StreamHandle stream = service.generate(
      std::move(request), [queue](const Event& event) { queue->push(event); },
      Delivery::kAcknowledged);

  StreamOutcome outcome;
  bool cancelled = false;
  while (!outcome.done && !outcome.error) {
    if (!cancelled && interrupted()) {
      stream.cancel("interrupted in the terminal");
      cancelled = true;
    }
    const std::optional<Event> event = queue->pop(std::chrono::milliseconds(50));
    if (!event) continue;
    if (const auto* token = std::get_if<TokenEvent>(&*event)) {
      outcome.text += token->text;
      on_text(token->text);
    } else if (const auto* done = std::get_if<DoneEvent>(&*event)) {
      outcome.done = *done;
    } else if (const auto* error = std::get_if<ErrorEvent>(&*event)) {
      outcome.error = *error;
    }
    stream.delivered(number_of(*event));
  }
  return outcome;
}

}  // namespace sluice::app
