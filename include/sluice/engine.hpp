// The engine, with callbacks.
//
//   sluice::Engine engine{config};                       // loads the model; throws Error
//   auto stream = engine.generate({.input = "Once upon a time"}, [](const sluice::Event& event) {
//     if (const auto* token = std::get_if<sluice::TokenEvent>(&event)) std::cout << token->text;
//   });
//   stream.pause(); stream.resume(); stream.change({.temperature = 0.2F}); stream.cancel();
//
// Threads. Every member function of Engine and Stream may be called from any thread, at once.
// Handlers run on threads of the engine: one stream's handler is never called twice at the same
// time, handlers of two streams may be. generate() and the calls on a Stream never wait.
//
// What may block: Engine's constructor (it loads the model) and destructor, and shutdown(). A
// handler must not block, and must not destroy its engine or call shutdown(). It may start
// streams and steer any.
//
// What may throw: constructor, plan(), prompt_tokens(), change() throw Error and nothing else but
// std::bad_alloc. A handler should not throw; if it does, its stream ends, and no other.
//
// What outlives what. A Stream may outlive its engine; then its calls do nothing. What a handler
// refers to must live until the handler has been destroyed, which happens soon after its terminal
// event, and at the latest when the engine's destructor returns.
//
// The process. There is no global state: any number of engines, of the same or other models, live
// side by side. No signal handler is installed, nothing is written to stdout or stderr. Warnings
// go to the spdlog logger named "sluice" if the program has registered one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sluice/config.hpp"
#include "sluice/error.hpp"
#include "sluice/events.hpp"
#include "sluice/request.hpp"
#include "sluice/version.hpp"

namespace sluice {

class StreamHandle;

namespace embed {
class EngineCore;
class Access;
}  // namespace embed

namespace SLUICE_PUBLIC v0 {

/// Hears one stream's events, in order. See the top of this file for what it may do. After the
/// terminal event it is not called again and is destroyed.
using EventHandler = std::function<void(const Event&)>;

/// Who says when an event has been delivered. Until then it counts against Config::credit_window.
enum class Delivery {
  kOnReturn,      ///< the handler has returned
  kAcknowledged,  ///< Stream::delivered() has been called: back-pressure
};

/// Steers a running stream. A copyable value; dropping it does not end the stream. After the end
/// of the stream or of the engine its calls do nothing.
class Stream {
 public:
  Stream() = default;

  /// Unique in its engine; 0 for a default-constructed one.
  StreamId id() const noexcept { return id_; }
  /// False for a default-constructed one.
  explicit operator bool() const noexcept { return handle_ != nullptr; }

  /// Ends the stream: text that may be shown, then `done` with the rule kCancelled and `detail`.
  void cancel(std::string detail = {}) const;
  /// Draws no further tokens until resume(); what was computed is kept.
  void pause() const;
  /// Goes on after pause().
  void resume() const;
  /// Other limits and stops from the next token on. Throws Error(kInvalidArgument) for changes
  /// that can't work; then nothing changes.
  void change(const Changes& changes) const;
  /// The listener has everything up to and including this event (Delivery::kAcknowledged).
  void delivered(std::uint64_t event_number) const;
  /// Nobody listens any more: ends at once, calls the handler no more, destroys it soon.
  void abandon() const;

 private:
  friend class embed::Access;
  StreamId id_ = 0;
  std::shared_ptr<const StreamHandle> handle_;
};

/// What an engine serves; constant while it lives.
struct Info {
  std::string model_name{};                 ///< as the model calls itself
  std::string model_summary{};              ///< e.g. "llama, 6 layers, 2.8 M parameters, q8_0"
  std::string backend{};                    ///< e.g. "CPU, AVX-512, 2 threads"
  std::string chat_template{};              ///< which one is used
  std::string tokenizer{};                  ///< its kind
  std::int32_t context_length = 0;          ///< positions of one stream, prompt and answer
  std::int32_t default_max_new_tokens = 0;  ///< as configured
  std::vector<std::string> end_tokens{};    ///< texts of the tokens that end a turn
};

/// Numbers for metrics; a snapshot.
struct Stats {
  bool ready = false;                  ///< the backend is alive
  std::int32_t streams = 0;            ///< that have not closed yet
  std::int32_t waiting = 0;            ///< of them, in the queue
  std::int32_t running = 0;            ///< of them, with KV blocks
  std::uint64_t steps = 0;             ///< of the model so far
  std::uint64_t prompt_tokens = 0;     ///< computed (cached ones not counted)
  std::uint64_t generated_tokens = 0;  ///< drawn
  std::uint64_t preemptions = 0;       ///< streams that had to give up their KV for a while
  std::int32_t kv_blocks = 0;          ///< in the pool
  std::int32_t kv_blocks_used = 0;     ///< of them, owned by streams
  std::int32_t kv_blocks_cached = 0;   ///< of the others, with content that can be found again
  std::uint64_t streams_started = 0;   ///< so far
  std::map<std::string, std::uint64_t> streams_finished{};  ///< by stop rule, or "error"
  std::uint64_t backend_restarts = 0;                       ///< after failures
};

/// A model, loaded and served. Movable, not copyable.
class Engine {
 public:
  /// Loads the model, takes the memory that plan() says, starts the threads. Throws Error.
  explicit Engine(const Config& config);
  /// Ends every stream (each gets its terminal event) and waits for that: a second at most, and
  /// for the end of the step under way.
  ~Engine();
  Engine(Engine&&) noexcept;             ///< Moved-from, it may only be destroyed or assigned to.
  Engine& operator=(Engine&&) noexcept;  ///< The engine before is destroyed.

  /// Starts a stream. Does not wait: a request that can't be served gets its one `error` event
  /// through the handler. When that error is "shutting_down", do not try again here.
  Stream generate(Request request, EventHandler on_event, Delivery delivery = Delivery::kOnReturn);

  /// What is served.
  Info info() const;
  /// How it is going; cheap, never waits.
  Stats stats() const;
  /// The prompt that generate() would make of the request. Throws Error(kInvalidArgument) where
  /// generate() would answer with an error.
  std::vector<TokenId> prompt_tokens(const Request& request) const;
  /// The bytes that a token stands for; not always whole code points. Empty for an unknown one.
  std::string token_text(TokenId token) const;

  /// Takes no more streams, lets running ones finish for `grace`, then cancels the rest. Returns
  /// when all have closed, at most about a second after the grace time. May be called again.
  void shutdown(std::chrono::milliseconds grace);

 private:
  friend class embed::Access;
  explicit Engine(std::shared_ptr<embed::EngineCore> core);
  std::shared_ptr<embed::EngineCore> core_;
};

}  // namespace v0
}  // namespace sluice
