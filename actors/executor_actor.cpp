#include "actors/executor_actor.hpp"

#include <utility>

#include "actors/actor_base.hpp"

namespace sluice {

ExecutorActor::ExecutorActor(caf::actor_config& config, ExecutorParts parts)
    : stateful_actor(config) {
  state.parts = std::move(parts);
}

ExecutorActor::behavior_type ExecutorActor::make_behavior() {
  set_default_handlers(*this, state.name);
  return {
      [this](prepare_atom) { return prepare(); },
      [this](step_atom, const StepBatch& batch) { return step(batch); },
      [this](inspect_atom) { return ExecutorView{mailbox().size()}; },
  };
}

BackendReport ExecutorActor::prepare() {
  BackendReport report;
  try {
    state.backend.reset();  // before another takes memory
    state.backend = state.parts.make_backend();
    state.backend->allocate_pool(state.parts.pool);
    report.description = state.backend->description();
    report.memory = state.backend->memory();
    report.device_probe = state.backend->device_probe();
    report.ok = true;
  } catch (const Error& error) {
    report.code = error.code();
    report.message = error.what();
  } catch (const std::bad_alloc&) {
    report.code = ErrorCode::kDoesNotFit;
    report.message = "There is not enough memory for the model's weights and KV pool.";
  } catch (const std::exception& error) {
    report.message = error.what();
  }
  if (!report.ok) state.backend.reset();
  return report;
}

StepResult ExecutorActor::step(const StepBatch& batch) {
  StepResult result;
  if (state.backend) {
    result = state.backend->step(batch);
  } else {
    result.number = batch.number;
    result.fatal = "the executor has no backend";
  }
  if (!result.fatal.empty()) {
    quit(caf::make_error(ActorError::kBackendFailed, result.fatal));
  }
  return result;
}

}  // namespace sluice
