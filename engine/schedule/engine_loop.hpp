// Scheduler, KV manager and backend in one thread, without actors: the shortest way through the
// machine. Tests compare the actor system with it, benchmarks measure against it.
#pragma once

#include <functional>

#include "engine/backend/backend.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/schedule/scheduler.hpp"

namespace sluice {

class EngineLoop {
 public:
  EngineLoop(Backend& backend, Scheduler& scheduler, KvManager& kv);

  /// Runs one step and hands over what happened. False when there was nothing to do. Throws
  /// Error(kInternal) when the backend can't go on; debug builds audit after every step.
  bool run_once(const std::function<void(const Publication&)>& on_publication);

  /// Submits, runs until the sequence has `request.max_new_tokens` tokens, drew an end token or
  /// ended otherwise, removes it. Its tokens are the result (`request.generated` not repeated).
  /// Throws Error when the scheduler rejects it, it fails, or other sequences hold the blocks it
  /// needs.
  std::vector<SampledToken> generate(SequenceRequest request);

 private:
  void forget(SequenceId id);

  Backend& backend_;
  Scheduler& scheduler_;
  KvManager& kv_;
};

}  // namespace sluice
