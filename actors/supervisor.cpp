#include "actors/supervisor.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <utility>

#include "actors/actor_base.hpp"
#include "actors/kv_manager_actor.hpp"
#include "actors/scheduler_actor.hpp"

namespace sluice {

namespace {

constexpr std::chrono::milliseconds kStopPatience{400};  ///< between the phases of a stop

const Refusal kShuttingDown{"shutting_down", "The engine is shutting down."};

Refusal backend_failed(const std::string& what) {
  return {"backend_failed",
          "The model's backend failed too often to be restarted again: " + what + "."};
}

}  // namespace

// Also when the supervisor breaks: nothing it started outlives it, and no stream waits for ever.
// (A link would not do: it hands a child's `kill` on to the supervisor, which can't refuse it.)
SupervisorState::~SupervisorState() {
  if (parts.board) parts.board->ready(false);
  for (const auto& [id, session] : sessions) {
    caf::anon_send(session, refuse_atom::value,
                   backend_failed("its supervisor ended before its time"));
  }
  if (scheduler) caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
  if (executor) caf::anon_send_exit(executor, caf::exit_reason::user_shutdown);
  if (kv) caf::anon_send_exit(kv, caf::exit_reason::user_shutdown);
}

SupervisorActor::SupervisorActor(caf::actor_config& config, SupervisorParts parts)
    : stateful_actor(config) {
  state.parts = std::move(parts);
}

SupervisorActor::behavior_type SupervisorActor::make_behavior() {
  set_default_handlers(*this, state.name);
  set_down_handler([this](caf::down_msg& down) { on_down(down); });
  set_exception_handler([this](std::exception_ptr& exception) -> caf::error {
    caf::error reason = to_error(exception);
    log_warning("supervisor: " + describe(reason));
    // An engine that waits for an answer must not wait for ever.
    if (state.start_promise.pending()) state.start_promise.deliver(reason);
    if (state.stop_promise.pending()) state.stop_promise.deliver(reason);
    return reason;
  });
  return {
      [this](start_atom) {
        state.start_promise = make_response_promise<BackendReport>();
        start_children();
        return state.start_promise;
      },
      [this](join_atom, SequenceId sequence, const SessionRef& session) {
        join(sequence, session);
        return join_atom::value;
      },
      [this](tick_atom, std::uint64_t number) { on_timer(number); },
      [this](stop_atom, std::chrono::milliseconds grace) { return begin_stop(grace); },
      [this](inspect_atom) {
        return Crew{state.scheduler,
                    state.kv,
                    state.executor,
                    {state.sessions.begin(), state.sessions.end()},
                    mailbox().size()};
      },
  };
}

void SupervisorActor::join(SequenceId sequence, const SessionRef& session) {
  if (state.stop != StopPhase::kNone) {
    send(session, refuse_atom::value, kShuttingDown);
  } else if (state.phase == ServicePhase::kExhausted) {
    send(session, refuse_atom::value, backend_failed(state.failure));
  } else if (state.phase == ServicePhase::kServing) {
    send(session, serve_atom::value, Service{state.epoch, state.scheduler});
  }  // otherwise it is told when a scheduler is there
  state.sessions.emplace(sequence, session);
  state.sequence_of.emplace(session.address(), sequence);
  monitor(session);
}

void SupervisorActor::on_down(const caf::down_msg& down) {
  if (const auto found = state.sequence_of.find(down.source); found != state.sequence_of.end()) {
    state.sessions.erase(found->second);
    state.sequence_of.erase(found);
    if (state.stop != StopPhase::kNone && state.sessions.empty()) stop_children();
    return;
  }
  if (!child_down(down)) return;
  if (state.stop == StopPhase::kChildren) return stop_children();
  if (state.phase == ServicePhase::kClearing) return on_cleared();
  on_failure(describe(down.reason));
}

/// Lets go of the child that ended. False when it was none of them.
bool SupervisorActor::child_down(const caf::down_msg& down) {
  if (state.scheduler && down.source == state.scheduler.address()) {
    state.scheduler = nullptr;
    state.parts.board->scheduler_lost();
  } else if (state.executor && down.source == state.executor.address()) {
    state.executor = nullptr;
  } else if (state.kv && down.source == state.kv.address()) {
    state.kv = nullptr;
  } else {
    return false;
  }
  return true;
}

// -- starting and restarting ----------------------------------------------------------------------

void SupervisorActor::start_children() {
  state.phase = ServicePhase::kStarting;
  if (!state.kv) {
    state.kv =
        spawn<KvManagerActor, caf::monitored>(KvManagerParts{state.parts.kv, state.parts.board});
  }
  state.executor = state.parts.detached_executor
                       ? spawn<ExecutorActor, caf::detached + caf::monitored>(state.parts.executor)
                       : spawn<ExecutorActor, caf::monitored>(state.parts.executor);
  const caf::actor_addr asked = state.executor.address();
  request(state.executor, caf::infinite, prepare_atom::value)
      .then(
          [this, asked](const BackendReport& report) {
            if (state.executor && state.executor.address() == asked) on_prepared(report);
          },
          [](const caf::error&) {});  // it died: the down message follows
}

void SupervisorActor::on_prepared(const BackendReport& report) {
  if (state.phase != ServicePhase::kStarting || state.stop >= StopPhase::kChildren) return;
  if (!report.ok && state.start_promise.pending()) {  // the engine's constructor throws
    state.phase = ServicePhase::kExhausted;
    state.failure = report.message;
    state.start_promise.deliver(report);
    return;
  }
  if (!report.ok) return on_failure(report.message);

  state.scheduler = spawn<SchedulerActor, caf::monitored>(SchedulerParts{
      ++state.epoch, state.parts.scheduler, state.kv, state.executor, state.parts.board});
  state.phase = ServicePhase::kServing;
  state.parts.board->backend(report.memory, report.device_probe);
  state.parts.board->ready(true);
  if (state.start_promise.pending()) state.start_promise.deliver(report);
  if (state.epoch > 1) state.parts.board->executor_restarted();
  for (const auto& [id, session] : state.sessions) {
    send(session, serve_atom::value, Service{state.epoch, state.scheduler});
  }
}

void SupervisorActor::on_failure(const std::string& what) {
  if (state.phase == ServicePhase::kExhausted) return;
  log_warning("supervisor: restarting the backend: " + what);
  state.failure = what;
  state.parts.board->ready(false);
  state.phase = ServicePhase::kClearing;
  if (state.scheduler) send_exit(state.scheduler, caf::exit_reason::user_shutdown);
  if (state.executor) send_exit(state.executor, caf::exit_reason::user_shutdown);
  on_cleared();
}

/// After each end of a child while clearing: goes on when both are gone.
void SupervisorActor::on_cleared() {
  if (state.scheduler || state.executor) return;
  if (state.start_promise.pending()) {  // the executor broke while making the first backend
    state.phase = ServicePhase::kExhausted;
    BackendReport report;
    report.message = state.failure;
    state.start_promise.deliver(std::move(report));
    return;
  }
  const auto now = SupervisorState::Clock::now();
  const RestartPolicy& policy = state.parts.policy;
  std::erase_if(state.restarts, [&](auto when) { return now - when > policy.window; });
  if (state.restarts.size() >= static_cast<std::size_t>(policy.max_restarts)) return give_up();
  const auto doublings = std::min<std::size_t>(state.restarts.size(), 10);
  state.restarts.push_back(now);
  if (state.kv) {
    request(state.kv, caf::infinite, reset_atom::value)
        .then([](reset_atom) {}, [](const caf::error&) {});  // dead: start_children makes another
  }
  state.phase = ServicePhase::kPausing;
  state.restart_timer = set_timer(policy.first_pause * (1 << doublings));
}

void SupervisorActor::give_up() {
  state.phase = ServicePhase::kExhausted;
  log_warning("supervisor: giving up: " + state.failure);
  for (const auto& [id, session] : state.sessions) {
    send(session, refuse_atom::value, backend_failed(state.failure));
  }
}

// -- stopping -------------------------------------------------------------------------------------

caf::typed_response_promise<stop_atom> SupervisorActor::begin_stop(
    std::chrono::milliseconds grace) {
  state.stop_promise = make_response_promise<stop_atom>();
  auto promise = state.stop_promise;
  state.stop = StopPhase::kGrace;
  if (state.sessions.empty()) {
    stop_children();
  } else if (grace.count() > 0) {
    state.stop_timer = set_timer(grace);
  } else {
    next_stop_phase();
  }
  return promise;
}

/// Asks the sessions that are left, more firmly each time.
void SupervisorActor::next_stop_phase() {
  switch (state.stop) {
    case StopPhase::kGrace:
      state.stop = StopPhase::kCancelled;
      for (const auto& [id, session] : state.sessions) {
        send<caf::message_priority::high>(session, cancel_atom::value,
                                          std::string("the engine is shutting down"));
      }
      break;
    case StopPhase::kCancelled:  // what is left waits for a listener
      state.stop = StopPhase::kExit;
      for (const auto& [id, session] : state.sessions) {
        send_exit(session, caf::exit_reason::user_shutdown);
      }
      break;
    case StopPhase::kExit:
      state.stop = StopPhase::kKill;
      for (const auto& [id, session] : state.sessions) {
        send_exit(session, caf::exit_reason::kill);
      }
      return;
    default:
      return;
  }
  state.stop_timer = set_timer(kStopPatience);
}

/// Scheduler, executor, KV manager, one after the other; called again after each end.
void SupervisorActor::stop_children() {
  state.stop = StopPhase::kChildren;
  state.parts.board->ready(false);
  if (state.scheduler) {
    send_exit(state.scheduler, caf::exit_reason::user_shutdown);
  } else if (state.executor) {
    send_exit(state.executor, caf::exit_reason::user_shutdown);
  } else if (state.kv) {
    send_exit(state.kv, caf::exit_reason::user_shutdown);
  } else {
    state.stop = StopPhase::kDone;
    state.stop_promise.deliver(stop_atom::value);
    quit();
  }
}

// -- time -----------------------------------------------------------------------------------------

std::uint64_t SupervisorActor::set_timer(std::chrono::milliseconds wait) {
  delayed_send(this, wait, tick_atom::value, ++state.timers);
  return state.timers;
}

void SupervisorActor::on_timer(std::uint64_t number) {
  if (state.stop >= StopPhase::kChildren) return;
  if (number == state.stop_timer) return next_stop_phase();
  if (number == state.restart_timer && state.phase == ServicePhase::kPausing) start_children();
}

}  // namespace sluice
