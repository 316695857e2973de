// The running streams of the web server, by key. A stream belongs to the hub, not to the socket
// that asked for it; a socket only listens.
//
// Threads: every call may come from any thread; none waits for the engine.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/stream_service.hpp"

namespace sluice::web {

/// Names a stream in the hub; never reused. 0 is none.
using StreamKey = std::uint64_t;

/// Hears the events of streams, in order for each, on a thread of the engine, possibly before
/// start() has returned. Must only pass them on to its own thread, and not call the hub.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_stream_event(StreamKey key, const Event& event) = 0;
};

class StreamHub {
 public:
  explicit StreamHub(StreamService& service) : service_(service) {}

  /// Starts a stream whose events go to `sink` as long as that lives. 0 when the hub is closed.
  StreamKey start(GenerateRequest request, std::weak_ptr<EventSink> sink);

  void cancel(StreamKey key, const std::string& detail);
  void pause(StreamKey key);
  void resume(StreamKey key);
  /// The listener has everything up to and including event `number`; with `terminal` the stream
  /// is over and forgotten.
  void delivered(StreamKey key, std::uint64_t number, bool terminal);
  /// The listener is gone: ends the stream. No event reaches the sink after this returns.
  void detach(StreamKey key);

  /// start() gives 0 from now on.
  void close();
  bool closed() const;
  void cancel_all(const std::string& detail);
  void detach_all();
  /// Waits until no stream is left; false when that took longer than `limit`.
  bool wait_until_empty(std::chrono::milliseconds limit);
  std::size_t size() const;

 private:
  /// Shared with the engine's handler: where events go.
  struct Subscription {
    std::mutex mutex;
    std::weak_ptr<EventSink> sink;
    void forward(StreamKey key, const Event& event);
    void end();
  };
  struct Stream {
    StreamHandle handle;
    std::shared_ptr<Subscription> subscription;
  };

  StreamHandle handle(StreamKey key) const;
  std::vector<StreamKey> keys() const;

  StreamService& service_;
  mutable std::mutex mutex_;
  std::condition_variable emptied_;
  std::unordered_map<StreamKey, Stream> streams_;
  StreamKey last_key_ = 0;
  bool closed_ = false;
};

}  // namespace sluice::web
