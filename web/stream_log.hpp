// The events of one stream that may still be needed, and how far each of its viewers is.
//
// A viewer takes events from the log whenever it can write, so the log is also what waits for
// slow viewers: waiting token events are taken joined into one, with the number of the last.
// Events are given up when no viewer needs them; a log that keeps (for viewers to come) gives up
// the oldest only when it has become too large.
//
// The engine may be told that events are delivered (acknowledged()) when every viewer has written
// them. Without a viewer a log that keeps takes delivery itself, until half of its size is filled
// with events that nobody has seen.
//
// Worked example: push accepted (1), tokens "On" (2), "ce" (3); attach A after 1: take gives token
// "Once" with number 3. Attach B after 2: take gives token "ce" with number 3. written(A, 3):
// acknowledged is 1 still, until written(B, 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "engine/stream/events.hpp"

namespace sluice::web {

/// Names a viewer; never reused. 0 is none.
using ViewerId = std::uint64_t;

/// Used by one thread at a time.
class StreamLog {
 public:
  struct Options {
    bool keeps = false;                 ///< for viewers to come; else only for those attached
    std::size_t max_bytes = 1 << 20;    ///< of a log that keeps, estimated as JSON
    std::size_t join_bytes = 16 << 10;  ///< a frame of joined tokens is not made larger
  };

  explicit StreamLog(const Options& options) : options_(options) {}

  /// The next event. Nothing may follow a terminal one.
  void push(Event event);

  /// The viewer has events up to `after` already (numbers to come count as the last one there is),
  /// and takes those that follow: the terminal one at least, if the stream has ended. False, and
  /// nothing changes, when some of them are gone: forgotten() says up to which.
  bool attach(ViewerId viewer, std::uint64_t after);
  void detach(ViewerId viewer);

  /// What the viewer should write next; empty when it has everything.
  std::optional<Event> take(ViewerId viewer);
  /// The viewer has written everything up to and including event `number`.
  void written(ViewerId viewer, std::uint64_t number);

  /// The engine may be told that it has delivered everything up to here. Never goes back.
  std::uint64_t acknowledged() const { return acknowledged_; }
  std::uint64_t last_number() const { return last_number_; }
  /// Events up to this one can't be had any more.
  std::uint64_t forgotten() const { return forgotten_; }
  bool ended() const { return ended_; }
  std::size_t bytes() const { return bytes_; }
  std::size_t num_viewers() const { return viewers_.size(); }

 private:
  struct Entry {
    std::uint64_t serial = 0;  // rises with every entry, heartbeats included
    std::size_t bytes = 0;
    Event event;
  };
  struct Viewer {
    std::uint64_t taken = 0;    // serial of the last entry taken
    std::uint64_t replay = 0;   // heartbeats up to this serial are history
    std::uint64_t written = 0;  // number of the last event written
  };

  std::size_t first_after(std::uint64_t serial) const;
  Viewer slowest() const;
  void see(std::uint64_t number);
  void settle();

  const Options options_;
  std::deque<Entry> entries_;
  std::unordered_map<ViewerId, Viewer> viewers_;
  std::uint64_t last_serial_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t forgotten_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t seen_ = 0;  // the last event that some viewer has or had
  std::size_t bytes_ = 0;
  std::size_t unseen_bytes_ = 0;
  bool ended_ = false;
};

}  // namespace sluice::web
