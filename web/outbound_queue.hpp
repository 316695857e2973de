// What waits to be written to one client.
//
// Order is kept within a stream. While a token event of a stream waits as its last entry, the
// next token event joins it: texts and tokens are appended and the last number counts. A slow
// client therefore gets fewer and larger frames, never stale ones. A waiting heartbeat is
// replaced by its successor. Nothing else is merged and nothing is ever dropped; `bytes()` tells
// the owner when a client is too far behind.
//
// Worked example: push token "On" (n 2), token "ce" (n 3), done (n 4) of one stream; pop gives
// the frame of token "Once" with n 3, then the frame of done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <variant>

#include "engine/stream/events.hpp"
#include "web/stream_hub.hpp"

namespace sluice::web {

/// One text frame, and what the engine may be told when it has been written.
struct Frame {
  std::string text;
  std::optional<StreamKey> stream;  ///< empty: belongs to no stream
  std::uint64_t number = 0;         ///< of the last event in it
  bool terminal = false;            ///< the stream's last frame
};

class OutboundQueue {
 public:
  /// A frame that belongs to no stream.
  void push(std::string text);
  /// An event of stream `key`, which the client calls `id`. Nothing may follow a terminal event.
  void push(StreamKey key, const std::string& id, Event event);

  /// The next frame; empty when nothing waits.
  std::optional<Frame> pop();

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  /// Estimate of what waits, in bytes of JSON.
  std::size_t bytes() const { return bytes_; }
  void clear();

 private:
  struct StreamEntry {
    StreamKey key = 0;
    std::string id;
    Event event;
  };
  struct Entry {
    std::variant<std::string, StreamEntry> content;
    std::size_t bytes = 0;
  };

  bool merge_into(Entry& waiting, Event& event);

  std::deque<Entry> entries_;
  std::uint64_t popped_ = 0;  ///< entries ever popped: entry i of the deque has serial popped_ + i
  std::unordered_map<StreamKey, std::uint64_t> last_of_stream_;  ///< serial of the last entry
  std::size_t bytes_ = 0;
};

}  // namespace sluice::web
