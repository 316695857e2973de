#include "actors/executor_actor.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "actors/actor_base.hpp"

namespace sluice {
namespace {

/// How long others wait for an answer while a device computes.
constexpr std::chrono::microseconds kPatience{500};

}  // namespace

ExecutorActor::ExecutorActor(caf::actor_config& config, ExecutorParts parts)
    : stateful_actor(config) {
  state.parts = std::move(parts);
}

ExecutorActor::behavior_type ExecutorActor::make_behavior() {
  set_default_handlers(*this, state.name);
  return {
      [this](prepare_atom) { return prepare(); },
      [this](step_atom, const StepBatch& batch) { return step(batch); },
      [this](tick_atom) { look(); },
      [this](inspect_atom) { return ExecutorView{mailbox().size()}; },
  };
}

BackendReport ExecutorActor::prepare() {
  BackendReport report;
  try {
    state.stepping = false;
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

caf::typed_response_promise<StepResult> ExecutorActor::step(const StepBatch& batch) {
  if (state.stepping) {  // the scheduler waits for an answer; whoever does not gets this one
    StepResult result;
    result.number = batch.number;
    result.fatal = "the executor is at work on another step";
    caf::typed_response_promise<StepResult> refused = make_response_promise<StepResult>();
    refused.deliver(std::move(result));
    return refused;
  }
  state.promise = make_response_promise<StepResult>();
  const caf::typed_response_promise<StepResult> promise = state.promise;
  if (state.backend) {
    state.stepping = true;
    state.backend->begin_step(batch);
    look();
  } else {
    StepResult result;
    result.number = batch.number;
    result.fatal = "the executor has no backend";
    deliver(std::move(result));
  }
  return promise;
}

void ExecutorActor::look() {
  if (!state.stepping) return;
  if (std::optional<StepResult> result = state.backend->end_step(kPatience)) {
    state.stepping = false;
    deliver(*std::move(result));
  } else {
    send(this, tick_atom::value);
  }
}

void ExecutorActor::deliver(StepResult result) {
  const std::string fatal = result.fatal;
  std::exchange(state.promise, {}).deliver(std::move(result));
  if (!fatal.empty()) quit(caf::make_error(ActorError::kBackendFailed, fatal));
}

}  // namespace sluice
