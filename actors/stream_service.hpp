// The engine as its listeners see it: start a stream, hear its events, steer it.
//
// Abstract, and free of CAF types, so that the web layer and programs that embed the engine
// compile without CAF and can be tested with a stub. `Engine` (engine.hpp) implements it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine_view.hpp"
#include "actors/histogram.hpp"
#include "engine/backend/device_usage.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/schedule/scheduler.hpp"
#include "engine/stream/events.hpp"
#include "engine/stream/request.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Hears one stream's events, in order, never two at the same time, on a thread of the engine.
/// It must not block (post the event elsewhere) and must not throw. After the terminal event it
/// is not called again and is destroyed.
using EventHandler = std::function<void(const Event&)>;

/// Who says when an event has been delivered.
enum class Delivery {
  kOnReturn,      ///< delivered when the handler returns
  kAcknowledged,  ///< delivered when StreamHandle::delivered() says so: back-pressure
};

/// The steering side of a stream; implemented by the engine and by stubs.
/// Every call may come from any thread, returns at once, and does nothing after the end.
class StreamControl {
 public:
  virtual ~StreamControl() = default;
  virtual void cancel(std::string detail) = 0;
  virtual void delivered(std::uint64_t event_number) = 0;
  virtual void listener_gone() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  /// Takes hold from the next token on; see StreamChanges. Changes that can't work change
  /// nothing; check_stream_changes() says beforehand why.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): implementations keep it
  virtual void change(StreamChanges /*changes*/) {}
};

/// Names a running stream. A copyable value; dropping it does not end the stream.
class StreamHandle {
 public:
  StreamHandle() = default;
  StreamHandle(SequenceId id, std::shared_ptr<StreamControl> control)
      : id_(id), control_(std::move(control)) {}

  SequenceId id() const { return id_; }
  explicit operator bool() const { return control_ != nullptr; }

  /// Ends the stream: text that may be shown, then `done` with rule "cancelled".
  void cancel(std::string detail) const {
    if (control_) control_->cancel(std::move(detail));
  }
  /// The listener has everything up to and including this event (Delivery::kAcknowledged).
  void delivered(std::uint64_t number) const {
    if (control_) control_->delivered(number);
  }
  /// Nobody listens any more: end at once, deliver nothing.
  void listener_gone() const {
    if (control_) control_->listener_gone();
  }
  /// Draw no further tokens until resume(); KV stays.
  void pause() const {
    if (control_) control_->pause();
  }
  void resume() const {
    if (control_) control_->resume();
  }
  /// Other limits and stops from the next token on; what `changes` leaves empty stays. Changes
  /// that can't work change nothing; check_stream_changes() says beforehand why.
  void change(StreamChanges changes) const {
    if (control_) control_->change(std::move(changes));
  }

 private:
  SequenceId id_ = 0;
  std::shared_ptr<StreamControl> control_;
};

/// What max_new_tokens is when a request does not say; the room behind the prompt if that is less.
struct DefaultMaximum {
  Position tokens = 0;
  bool observed = false;      ///< from the lengths of earlier answers, else as configured
  std::uint64_t samples = 0;  ///< answers whose lengths have been counted
};

/// How long things took and how large they were, since the engine started.
struct EngineHistograms {
  Histogram queue_seconds{kWaitSeconds};   ///< acceptance to the first prefill
  Histogram ttft_seconds{kWaitSeconds};    ///< acceptance to the first token
  Histogram itl_seconds{kTokenSeconds};    ///< between the tokens of a stream, pauses left out
  Histogram stream_seconds{kWaitSeconds};  ///< acceptance to the end, errors included
  Histogram prompt_tokens{kTokenCounts};   ///< of a stream that is done
  Histogram answer_tokens{kTokenCounts};   ///< likewise
  Histogram step_seconds{kTokenSeconds};
  Histogram step_tokens{kTokenCounts};        ///< in one batch
  Histogram step_sequences{kSequenceCounts};  ///< likewise
};

/// Numbers for metrics and views; a snapshot, cheap, never waits for the engine.
struct EngineStats {
  SchedulerStats scheduler;
  KvStats kv;
  std::int32_t sessions = 0;  ///< streams that have not closed yet
  std::uint64_t streams_started = 0;
  std::map<std::string, std::uint64_t> streams_finished;  ///< by stop rule, or "error"
  std::map<std::string, std::uint64_t> stream_errors;     ///< by code of the ErrorEvent
  std::uint64_t executor_restarts = 0;
  EngineHistograms histograms;
  BackendMemory memory;  ///< when the backend was made
  DefaultMaximum default_maximum;
  bool ready = false;  ///< the model is loaded and the executor is alive
};

/// What is served; constant while the engine lives.
struct ServiceInfo {
  std::string model_name;
  std::string model_path;
  std::string model_summary;  ///< e.g. "llama, 6 layers, 2.8 M parameters, q8_0"
  std::string backend;        ///< e.g. "CPU, AVX-512, 2 threads"
  std::string chat_template;
  std::string tokenizer;
  MemoryPlan plan;
  Position context_length = 0;
  Position default_max_new_tokens = 0;  ///< as configured; see EngineStats::default_maximum
  SamplingParams default_sampling;
  std::vector<std::string> end_tokens;  ///< texts of the tokens that end a turn
};

class StreamService {
 public:
  virtual ~StreamService() = default;

  /// Starts a stream. Does not throw and does not wait: a request that can't be served gets its
  /// one `error` event through the handler.
  ///
  /// A handler may start streams, also at the end of its own. When that end is the error
  /// "shutting_down" it must not try again: a service that shuts down gives the same answer to
  /// every new stream, and waits for all of them before it goes. (Clients of a server that get
  /// this code should go to another one, or come back later.)
  virtual StreamHandle generate(GenerateRequest request, EventHandler on_event,
                                Delivery delivery) = 0;
  virtual const ServiceInfo& info() const = 0;
  /// The model's, for looking at texts and ids; none in a stub.
  virtual std::shared_ptr<const Tokenizer> tokenizer() const { return nullptr; }
  /// The prompt that generate() would make of the request. Throws Error(kInvalidArgument) where
  /// generate() would answer with an error.
  virtual std::vector<TokenId> prompt_tokens(const GenerateRequest& /*request*/) const {
    return {};
  }
  virtual EngineStats stats() const = 0;
  /// How busy the devices beside the CPU are; asks their drivers, which takes some milliseconds.
  virtual std::vector<DeviceUsage> devices() const { return {}; }

  /// Asks every actor what it is doing and calls `done` once, on any thread, possibly before
  /// this returns. Costs a message to each of them: for views that somebody looks at.
  virtual void inspect(std::function<void(EngineView)> done) { done({}); }
  /// The bytes that a token stands for; not always whole code points.
  virtual std::string token_text(TokenId /*token*/) const { return {}; }
};

}  // namespace sluice
