// The way out to one listener: at most one terminal event, and never none.
//
// Whatever happens to the session that owns it (exception, kill, a broken machine), the listener
// hears exactly one `done` or `error`: the outlet passes the first one on, swallows everything
// after it, and sends an `error` of its own when it is destroyed before there was one. The one
// exception is a listener that went away, which hears nothing any more.
#pragma once

#include <memory>
#include <string>

#include "actors/stats_board.hpp"
#include "actors/stream_service.hpp"

namespace sluice {

/// Used by one thread at a time. Counts the stream on the board from construction to
/// destruction, and its outcome once.
class EventOutlet {
 public:
  EventOutlet(EventHandler handler, std::shared_ptr<StatsBoard> board);
  ~EventOutlet();
  EventOutlet(EventOutlet&& other) noexcept;
  EventOutlet& operator=(EventOutlet&&) = delete;

  /// Passes an event on; lets through what the handler throws. After a terminal event the
  /// handler is destroyed and further events are dropped.
  void push(const Event& event);

  /// Ends the stream with an error unless it has ended. Swallows what the handler throws.
  void fail(const std::string& code, const std::string& message) noexcept;

  /// The listener is gone: drops the handler. Counts as cancelled.
  void abandon() noexcept;

  bool finished() const { return finished_; }
  std::uint64_t last_number() const { return last_number_; }

 private:
  void finish(const std::string& outcome) noexcept;

  EventHandler handler_;
  std::shared_ptr<StatsBoard> board_;
  std::uint64_t last_number_ = 0;
  bool finished_ = false;
};

}  // namespace sluice
