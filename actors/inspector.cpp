#include "actors/inspector.hpp"

#include <algorithm>
#include <utility>

#include "actors/actor_base.hpp"

namespace sluice {

namespace {

constexpr std::size_t kMaxSessions = 256;  ///< asked in one look, the latest ones
constexpr std::chrono::seconds kPatience{1};

void add(Gathering& gathering, const char* name, std::size_t mailbox, SequenceId sequence = 0) {
  gathering.view.actors.push_back({name, sequence, mailbox, false});
}

}  // namespace

InspectorActor::InspectorActor(caf::actor_config& config, SupervisorRef supervisor)
    : stateful_actor(config) {
  state.supervisor = std::move(supervisor);
}

InspectorActor::behavior_type InspectorActor::make_behavior() {
  set_default_handlers(*this, state.name);
  return {[this](inspect_atom, const Inspection& inspection) { inspect(inspection.gathering); }};
}

void InspectorActor::inspect(const GatheringPtr& gathering) {
  request(state.supervisor, kPatience, inspect_atom::value)
      .then([this, gathering](const Crew& crew) { ask(crew, gathering); },
            [](const caf::error&) {});
}

void InspectorActor::ask(const Crew& crew, const GatheringPtr& gathering) {
  const auto missing = [](const caf::error&) {};
  add(*gathering, "supervisor", crew.mailbox);
  ask_executor(crew.executor, gathering);
  if (crew.scheduler) {
    request(crew.scheduler, kPatience, inspect_atom::value)
        .then(
            [gathering](SchedulerView& view) {
              add(*gathering, "scheduler", view.mailbox);
              gathering->view.sequences = std::move(view.sequences);
              gathering->view.steps = std::move(view.steps);
            },
            missing);
  }
  if (crew.kv) {
    request(crew.kv, kPatience, inspect_atom::value)
        .then(
            [gathering](KvView& view) {
              add(*gathering, "kv_manager", view.mailbox);
              gathering->view.block_size = view.block_size;
              gathering->view.blocks = std::move(view.blocks);
            },
            missing);
  }
  const std::size_t skipped = crew.sessions.size() - std::min(crew.sessions.size(), kMaxSessions);
  for (std::size_t i = skipped; i < crew.sessions.size(); ++i) {
    const auto& [sequence, session] = crew.sessions[i];
    request(session, kPatience, inspect_atom::value)
        .then(
            [gathering, id = sequence](SessionView& view) {
              add(*gathering, "session", view.mailbox, id);
              gathering->view.streams.push_back({id, std::move(view.held)});
            },
            missing);
  }
}

void InspectorActor::ask_executor(const ExecutorRef& executor, const GatheringPtr& gathering) {
  if (!executor) return;
  gathering->view.actors.push_back({"executor", 0, state.executor_mailbox, state.executor_asked});
  if (state.executor_asked) return;
  state.executor_asked = true;
  request(executor, caf::infinite, inspect_atom::value)
      .then(
          [this](const ExecutorView& view) {
            state.executor_asked = false;
            state.executor_mailbox = view.mailbox;
          },
          [this](const caf::error&) { state.executor_asked = false; });
}

}  // namespace sluice
