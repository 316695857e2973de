// The whole engine in one object: model, actors, streams.
//
//   sluice::EngineConfig config;
//   config.model = "model.gguf";
//   sluice::PreparedEngine prepared = sluice::prepare_engine(config);  // opens, plans, takes
//   nothing std::cout << sluice::plan_table(prepared.plan, prepared.model_config); sluice::Engine
//   engine(std::move(prepared));                        // takes memory, starts actors
//   engine.generate({.input = "Once upon a time"}, [](const sluice::Event& e) { ... },
//                   sluice::Delivery::kOnReturn);
//
// Threads: generate(), stats() and info() may be called from any thread. Handlers run on the
// engine's threads. The destructor ends every stream (each gets its terminal event) and waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/stream_service.hpp"
#include "engine/backend/backend.hpp"
#include "engine/backend/cuda_offer.hpp"
#include "engine/chat/chat_template.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/stream/low_confidence.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace caf {
class actor_system;
}  // namespace caf

namespace sluice {

/// How often a failed backend is replaced before every stream ends with `backend_failed`.
struct RestartPolicy {
  int max_restarts = 3;  ///< within `window`
  std::chrono::milliseconds window{60000};
  std::chrono::milliseconds first_pause{50};  ///< doubles with every restart in the window
};

struct EngineConfig {
  std::filesystem::path model;
  PlanRequest plan;
  SchedulerOptions scheduler;  ///< context_length and token_budget follow from `plan`, and
                               ///< the plan's prefill_chunk from here
  DeviceChoice device = DeviceChoice::kCpu;
  bool fast_prefill = false;       ///< CUDA: prompts through cuBLAS (cuda_decoder.hpp)
  std::int32_t threads = 0;        ///< of the CPU backend; 0: one per physical core
  bool precise = false;            ///< activations in f32: slower; else 8 bits where weights are
  std::int32_t actor_threads = 2;  ///< of the actor scheduler
  bool prefix_cache = true;
  Position default_max_new_tokens = 512;  ///< until there are enough answers to learn it from
  /// Where what was learned outlives the process (lengths of answers, a file a model). Made when
  /// needed. Empty: nothing is kept.
  std::filesystem::path state_dir;
  std::int32_t credit_window = 16;
  std::chrono::milliseconds heartbeat_interval{10000};
  RestartPolicy restart;
  TokenizerOptions tokenizer;
};

/// Everything decided and nothing taken yet.
struct PreparedEngine {
  EngineConfig config;
  std::shared_ptr<const ModelSource> source;
  ModelConfig model_config;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
  LowConfidenceDefaults low_confidence;
  MemoryPlan plan;
  std::string device_note;  ///< where it will be computed and why: "computing on the CPU (...)"
  /// Makes the backend, again after each failure. Called on the executor's thread; throws Error.
  std::function<std::unique_ptr<Backend>()> make_backend;
};

/// Opens the model, reads its configuration and tokenizer, and plans. Throws Error.
PreparedEngine prepare_engine(const EngineConfig& config);

struct WarmUp {
  std::size_t scratch_bytes = 0;
  std::chrono::nanoseconds duration{0};
};

/// Makes the backend, runs the largest prefill and decode steps on a pool just large enough for
/// them, and plans again with the scratch memory they took. The backend stays with `prepared`.
/// Throws Error, also when the plan no longer fits.
WarmUp warm_up(PreparedEngine& prepared);

class Engine final : public StreamService {
 public:
  /// Allocates and starts. Throws Error when the backend can't be made.
  explicit Engine(PreparedEngine prepared);
  /// Likewise, with its actors in a system of the caller, which must outlive the engine. Not to be
  /// made or destroyed on a worker of that system: both wait for actors.
  Engine(PreparedEngine prepared, caf::actor_system& host);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  StreamHandle generate(GenerateRequest request, EventHandler on_event, Delivery delivery) override;
  const ServiceInfo& info() const override;
  std::shared_ptr<const Tokenizer> tokenizer() const override;
  std::vector<TokenId> prompt_tokens(const GenerateRequest& request) const override;
  EngineStats stats() const override;
  std::vector<DeviceUsage> devices() const override;
  void inspect(std::function<void(EngineView)> done) override;
  std::string token_text(TokenId token) const override;

  /// Takes no more streams, lets running ones finish for `grace`, then cancels the rest. Returns
  /// when all have closed, at most about a second after the grace time. May be called again and
  /// from several threads; not from a handler, which it would wait for.
  void shutdown(std::chrono::milliseconds grace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
