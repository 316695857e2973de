// The streams of the web server. A stream belongs to the hub, not to the socket that asked for
// it: sockets attach viewers, and a stream that is to be kept outlives them for a while.
//
// A stream that is not kept ends when its viewer leaves. One that is kept for a time goes on that
// long after its last viewer has left, and is then ended; after its terminal event its log stays
// that long for late viewers.
//
// Threads: every call may come from any thread; none waits for the engine. A thread of the hub's
// own ends what nobody came back for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "actors/stream_service.hpp"
#include "web/access/key_ring.hpp"
#include "web/stream_log.hpp"

namespace sluice::web {

/// Hears that there is something to take for a viewer, on any thread, possibly before start() or
/// attach() has returned. Must only pass it on to its own thread, and not call the hub.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_news(ViewerId viewer) = 0;
};

struct HubOptions {
  std::size_t log_bytes = 1 << 20;  ///< of each stream that is kept
  std::size_t max_unwatched = 256;  ///< streams without a viewer; beyond, the oldest are ended
};

/// Numbers for metrics.
struct HubStats {
  std::size_t streams = 0;
  std::size_t viewers = 0;
  std::size_t unwatched = 0;  ///< streams kept without a viewer, ended ones included
  std::size_t log_bytes = 0;
};

class StreamHub {
 public:
  explicit StreamHub(StreamService& service, const HubOptions& options = {});
  ~StreamHub();
  StreamHub(const StreamHub&) = delete;
  StreamHub& operator=(const StreamHub&) = delete;

  /// Starts a stream with one viewer, kept for `keep` after its viewers and its end; 0 is not
  /// kept. 0 when the hub is closed. The stream belongs to `owner`, who is charged for its tokens;
  /// without keys to nobody. The log calls it by `request_id`.
  ViewerId start(GenerateRequest request, std::chrono::milliseconds keep,
                 std::weak_ptr<EventSink> sink, CallerPtr owner = {}, std::string request_id = {});

  enum class AttachFault { kNone, kUnknownStream, kGoneTooFar };
  struct Attached {
    AttachFault fault = AttachFault::kNone;
    ViewerId viewer = 0;
    std::uint64_t forgotten = 0;  ///< kGoneTooFar: events up to this one are gone
  };
  /// A further viewer of a kept stream, for what follows event `after`. Another's stream is
  /// unknown.
  Attached attach(const std::string& stream_key, std::uint64_t after, std::weak_ptr<EventSink> sink,
                  const CallerPtr& owner = {});

  /// What the viewer should write next; after nothing, on_news() says when there is more.
  std::optional<Event> take(ViewerId viewer);
  /// The viewer has written everything up to and including event `number`; with `terminal` it has
  /// seen the end and is forgotten.
  void written(ViewerId viewer, std::uint64_t number, bool terminal);
  /// The viewer is gone. Its sink hears nothing more after this returns.
  void detach(ViewerId viewer);
  /// What attach() knows the viewer's stream by: 128 random bits; empty when it is not kept.
  std::string stream_key(ViewerId viewer) const;
  /// What the log calls the viewer's stream.
  std::string request_id(ViewerId viewer) const;
  /// What the engine calls the viewer's stream; 0 until it has started.
  SequenceId sequence(ViewerId viewer) const;
  /// What the engine calls the owner's streams that somebody looks at.
  std::set<SequenceId> sequences_of(const Caller& owner) const;

  void cancel(ViewerId viewer, const std::string& detail);
  void pause(ViewerId viewer);
  void unpause(ViewerId viewer);
  void change(ViewerId viewer, StreamChanges changes);

  /// start() gives 0 from now on, and streams without a viewer end.
  void close();
  bool closed() const;
  void cancel_all(const std::string& detail);
  /// Closes, detaches every viewer and ends every stream; nothing happens after it returns. Not
  /// to be called by two threads at once.
  void detach_all();
  /// Waits until no viewer is left; false when that took longer than `limit`.
  bool wait_until_empty(std::chrono::milliseconds limit);
  HubStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Steering = std::function<void(const StreamHandle&)>;
  struct Stream;
  using StreamPtr = std::shared_ptr<Stream>;

  StreamPtr find(ViewerId viewer) const;
  void steer(ViewerId viewer, const Steering& steering);
  void leave(ViewerId viewer);
  Clock::time_point sweep(Clock::time_point now, std::vector<StreamPtr>& ended);
  std::vector<StreamPtr> streams() const;
  void run();

  StreamService& service_;
  const HubOptions options_;
  mutable std::mutex mutex_;  // before any stream's
  std::condition_variable emptied_;
  std::condition_variable deadlines_changed_;
  std::unordered_map<ViewerId, StreamPtr> viewers_;
  std::unordered_map<std::string, StreamPtr> kept_;  // by stream key
  ViewerId last_viewer_ = 0;
  bool closed_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace sluice::web
