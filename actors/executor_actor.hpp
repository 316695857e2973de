// Owns the backend, on a thread of its own, and runs one step after the other.
//
// Spawn detached: a step takes milliseconds, and nothing else may wait for it. The backend is
// made, used and destroyed on that thread. When it reports that it can't go on, the executor
// answers the step, then ends with kBackendFailed; the supervisor makes another.
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
};

class ExecutorActor final : public ExecutorRef::stateful_base<ExecutorState> {
 public:
  ExecutorActor(caf::actor_config& config, ExecutorParts parts);

 protected:
  behavior_type make_behavior() override;

 private:
  BackendReport prepare();
  StepResult step(const StepBatch& batch);
};

}  // namespace sluice
