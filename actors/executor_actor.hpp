// Owns the backend, on a thread of its own, and runs one step after the other.
//
// Spawn detached: a step takes milliseconds, and nothing else may wait for it. The backend is
// made, used and destroyed on that thread. While a device is at work on a step the executor only
// looks for its end, and answers others in between. When it reports that it can't go on, the
// executor answers the step, then ends with kBackendFailed; the supervisor makes another.
#pragma once

#include <functional>
#include <memory>

#include "actors/interfaces.hpp"

namespace sluice {

struct ExecutorParts {
  std::function<std::unique_ptr<Backend>()> make_backend;
  KvPoolShape pool;
};

struct ExecutorState {
  static constexpr const char* name = "executor";
  ExecutorParts parts;
  std::unique_ptr<Backend> backend;
  bool stepping = false;
  caf::typed_response_promise<StepResult> promise;  ///< of the step under way
};

class ExecutorActor final : public ExecutorRef::stateful_base<ExecutorState> {
 public:
  ExecutorActor(caf::actor_config& config, ExecutorParts parts);

 protected:
  behavior_type make_behavior() override;

 private:
  BackendReport prepare();
  caf::typed_response_promise<StepResult> step(const StepBatch& batch);
  /// Looks for the end of the step under way; comes back when there is none yet.
  void look();
  void deliver(StepResult result);
};

}  // namespace sluice
