#include "actors/session_actor.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <exception>
#include <utility>

#include "actors/actor_base.hpp"
#include "engine/base/error.hpp"
#include "engine/stream/stop_policy.hpp"

namespace sluice {

namespace {

constexpr std::chrono::milliseconds kResubmitPause{50};
constexpr std::chrono::milliseconds kShortestAlarm{1};
/// A pending alarm keeps the memory of a session that has ended; so none is set far ahead.
constexpr std::chrono::seconds kLongestAlarm{10};

/// The later changes win, field by field.
void merge(StreamChanges& into, StreamChanges later) {
  if (later.max_new_tokens) into.max_new_tokens = later.max_new_tokens;
  if (later.stop_strings) into.stop_strings = std::move(later.stop_strings);
  if (later.stop_patterns) into.stop_patterns = std::move(later.stop_patterns);
  if (later.temperature) into.temperature = later.temperature;
}

}  // namespace

SessionState::~SessionState() {
  if (parts) parts->link->cut();
  if (judge) judge->over(parts->id);
}

SessionActor::SessionActor(caf::actor_config& config, SessionParts parts) : stateful_actor(config) {
  state.parts.emplace(std::move(parts));
}

SessionActor::behavior_type SessionActor::make_behavior() {
  set_default_handlers(*this, state.name);
  set_exit_handler([this](caf::exit_msg& message) { on_exit_request(message.reason); });
  set_exception_handler([this](std::exception_ptr& exception) -> caf::error {
    caf::error reason = to_error(exception);
    log_warning("session: " + describe(reason));
    state.parts->outlet.fail("internal",
                             "The stream failed inside the engine: " + describe(reason) + ".");
    return reason;
  });
  return {
      [this](begin_atom) { begin(); },
      [this](serve_atom, const Service& service) { on_service(service); },
      [this](refuse_atom, const Refusal& refusal) { refuse(refusal); },
      [this](publish_atom, Epoch epoch, const Publications& publications) {
        on_publications(epoch, publications.list);
      },
      [this](judged_atom, std::uint64_t number, StopAnswer& answer) {
        on_judged(number, std::move(answer));
      },
      [this](delivered_atom, std::uint64_t number) {
        if (state.started) carry_out(state.machine->on_delivered(number));
      },
      [this](unheard_atom) { on_unheard(); },
      [this](pause_atom) {
        state.early_pause = true;
        if (state.stream_clock) state.stream_clock->skip_gap();
        if (state.started) carry_out(state.machine->pause());
      },
      [this](resume_atom) {
        state.early_pause = false;
        if (state.stream_clock) state.stream_clock->skip_gap();
        if (state.started) carry_out(state.machine->resume());
      },
      [this](change_atom, StreamChanges& changes) { on_change(std::move(changes)); },
      [this](cancel_atom, std::string& detail) { on_cancel(std::move(detail)); },
      [this](gone_atom) { on_gone(); },
      [this](tick_atom) { on_tick(); },
      [this](inspect_atom) {
        return SessionView{state.machine ? std::string(state.machine->held_text()) : "",
                           mailbox().size()};
      },
  };
}

// -- the request's way in -------------------------------------------------------------------------

void SessionActor::begin() {
  SessionParts& parts = *state.parts;
  auto prepared = prepare_stream(parts.request, *parts.service);
  state.default_maximum = !parts.request.stop.max_new_tokens;
  state.judge = parts.request.stop.judge.judge;
  state.priority = parts.request.priority;
  state.sample_group = parts.request.sample_group;
  parts.request = {};
  if (const auto* error = std::get_if<IntakeError>(&prepared)) {
    return refuse({error->code, error->message});
  }
  auto& stream = std::get<PreparedStream>(prepared);
  state.prompt = std::move(stream.prompt);
  state.end_tokens = std::move(stream.end_tokens);
  state.sampling = std::move(stream.sampling);
  state.max_new_tokens = stream.session.max_new_tokens;
  state.salt = std::move(stream.salt);
  const auto now = clock().now();
  state.stream_clock.emplace(parts.board, now);
  state.machine.emplace(std::move(stream.session), parts.service->tokenizer, now);
  if (state.early_cancel) return on_cancel(std::move(*state.early_cancel));

  // A request, not a monitor: a monitor would stay with the supervisor after this stream's end.
  request(parts.supervisor, caf::infinite, join_atom::value, parts.id, SessionRef(this))
      .then([](join_atom) {},
            [this](const caf::error&) {
              refuse({"shutting_down", "The engine is shutting down."});
            });
}

void SessionActor::on_service(const Service& service) {
  // A retry may be overtaken by the next restart.
  if (ending() || service.epoch < state.service.epoch) return;
  state.resubmitting = state.started;
  state.stream_clock->skip_gap();
  state.service = service;
  Submission submission;
  submission.session = this;
  submission.request = {.id = state.parts->id,
                        .prompt = state.prompt,
                        .generated = state.machine->generated_tokens(),
                        .sampling = state.sampling,
                        .max_new_tokens = state.max_new_tokens,
                        .end_tokens = state.end_tokens,
                        .credit = state.machine->restart(),
                        .salt = state.salt,
                        .sample_group = state.sample_group,
                        .priority = state.priority};
  request(service.scheduler, caf::infinite, submit_atom::value, std::move(submission))
      .then([this, service](RejectReason reason) { on_submit_answer(service, reason); },
            [](const caf::error&) {});  // it died; the supervisor will name its successor
}

void SessionActor::on_submit_answer(const Service& asked, RejectReason reason) {
  if (asked.epoch != state.service.epoch || ending()) return;
  if (reason == RejectReason::kNone) {
    if (!state.started) start();
    return give_verdict();
  }
  if (state.resubmitting && reason == RejectReason::kQueueFull) {
    // After a restart every stream queues at once; one that was accepted is not turned away.
    delayed_send(this, kResubmitPause, serve_atom::value, asked);
    return;
  }
  carry_out(state.machine->on_rejected(reason, clock().now()));
}

void SessionActor::refuse(const Refusal& refusal) {
  if (state.started && !ending()) {
    return carry_out(state.machine->fail(refusal.code, refusal.message, clock().now()));
  }
  if (ending()) return;
  state.parts->outlet.fail(refusal.code, refusal.message);
  quit();
}

void SessionActor::start() {
  state.started = true;
  carry_out(state.machine->start());
  if (state.early_changes && !ending()) {
    if (state.early_changes->max_new_tokens) state.default_maximum = false;
    carry_out(state.machine->change(*state.early_changes, clock().now()));
  }
  state.early_changes.reset();
  if (state.early_pause && !ending()) carry_out(state.machine->pause());
}

// -- from the scheduler ---------------------------------------------------------------------------

void SessionActor::on_publications(Epoch epoch, const std::vector<Publication>& publications) {
  if (epoch != state.service.epoch || !state.started || ending()) return;
  const auto now = clock().now();
  const bool drawn = std::any_of(publications.begin(), publications.end(),
                                 [](const auto& p) { return p.kind == Publication::Kind::kToken; });
  state.stream_clock->on_publications(publications, now);
  carry_out(state.machine->on_publications(publications, now));
  if (drawn) give_verdict();
}

// The scheduler stops drawing after an end token and at the maximum, and waits. Those usually are
// the end; where the machine thinks otherwise, it goes on.
void SessionActor::give_verdict() {
  if (ending()) return;
  const TokenId last = state.machine->last_judged_token();
  if (std::binary_search(state.end_tokens.begin(), state.end_tokens.end(), last)) {
    send(state.service.scheduler, go_on_atom::value, state.parts->id);
  }
}

// -- the caller's own rule ------------------------------------------------------------------------

void SessionActor::ask(StopQuestion question) {
  const std::uint64_t number = question.number;
  question.stream = state.parts->id;
  // From whatever thread, and also when this stream has ended meanwhile.
  const StopReply reply([link = state.parts->link, number](StopAnswer answer) {
    if (const SessionRef session = link->session()) {
      caf::anon_send(session, judged_atom::value, number, std::move(answer));
    }
  });
  try {
    state.judge->judge(std::move(question), reply);
  } catch (const std::exception& error) {
    reply({.failure = error.what()});
  } catch (...) {
    reply({.failure = "it threw something that is no std::exception"});
  }
}

void SessionActor::on_judged(std::uint64_t number, StopAnswer answer) {
  if (ending()) return;
  carry_out(state.machine->on_judged(number, std::move(answer), clock().now()));
  give_verdict();
}

// -- from the listener ----------------------------------------------------------------------------

void SessionActor::on_cancel(std::string detail) {
  if (!state.machine) {  // overtook `begin`
    state.early_cancel = std::move(detail);
    return;
  }
  if (!state.started) start();
  if (!ending()) carry_out(state.machine->cancel(std::move(detail), clock().now()));
}

void SessionActor::on_change(StreamChanges changes) {
  if (ending()) return;
  SessionMachine::Output output;
  try {
    if (!state.started) {
      check_stream_changes(changes);
      if (!state.early_changes) state.early_changes.emplace();
      return merge(*state.early_changes, std::move(changes));
    }
    output = state.machine->change(changes, clock().now());
    if (changes.max_new_tokens) state.default_maximum = false;
  } catch (const Error& error) {
    return log_warning(std::string("session: a change was refused: ") + error.what());
  }
  carry_out(std::move(output));
}

void SessionActor::on_gone() {
  state.parts->outlet.abandon();
  if (!state.machine) return quit();
  carry_out(state.machine->on_listener_gone(clock().now()));
  quit();
}

void SessionActor::on_unheard() {
  state.parts->delivery = Delivery::kOnReturn;
  if (!state.started) return;
  carry_out(state.machine->on_delivered(state.parts->outlet.last_number()));
}

// -- time -----------------------------------------------------------------------------------------

void SessionActor::on_tick() {
  state.alarm = SessionState::Clock::time_point::max();
  if (!state.started || ending()) return;
  if (clock().now() < state.machine->next_deadline()) return set_alarm();
  const auto tick = [this] {
    if (!ending()) carry_out(state.machine->on_tick(clock().now()));
  };
  if (state.machine->phase() != SessionPhase::kQueued || !state.service.scheduler) return tick();
  // A heartbeat in the queue says how far it has come.
  request(state.service.scheduler, std::chrono::seconds(1), status_atom::value, state.parts->id)
      .then(
          [this, tick](const SequenceStatus& status) {
            state.machine->set_queue_position(status.queue_position);
            tick();
          },
          [tick](const caf::error&) { tick(); });
}

// One pending tick is enough: one that comes early sets the next.
void SessionActor::set_alarm() {
  if (ending()) return;
  const auto deadline = state.machine->next_deadline();
  if (deadline >= state.alarm || deadline == SessionState::Clock::time_point::max()) return;
  const auto now = clock().now();
  const auto wait =
      std::clamp<SessionState::Clock::duration>(deadline - now, kShortestAlarm, kLongestAlarm);
  state.alarm = now + wait;
  delayed_send(this, wait, tick_atom::value);
}

// -- the end --------------------------------------------------------------------------------------

// The last request to leave: everything has been said, or is said now.
void SessionActor::on_exit_request(const caf::error& reason) {
  if (state.started && !ending()) {
    carry_out(state.machine->cancel("the engine is shutting down", clock().now()));
  }
  state.parts->outlet.fail("shutting_down", "The engine is shutting down.");
  quit(reason);
}

void SessionActor::carry_out(SessionMachine::Output output) {
  for (;;) {
    std::uint64_t last = 0;
    for (const Event& event : output.events) {
      note(event);
      state.parts->outlet.push(event);
      last = number_of(event);
    }
    steer(output);
    if (output.credit > 0 && state.service.scheduler) {
      send(state.service.scheduler, credit_atom::value, state.parts->id, output.credit);
    }
    if (output.remove_sequence && state.service.scheduler) {
      send(state.service.scheduler, remove_atom::value, state.parts->id);
    }
    if (output.question) ask(std::move(*output.question));
    if (output.closed) return quit();
    if (output.events.empty() || state.parts->delivery != Delivery::kOnReturn) break;
    output = state.machine->on_delivered(last);
  }
  set_alarm();
}

// How the stream ended teaches the engine how long answers get.
void SessionActor::note(const Event& event) {
  if (is_terminal(event)) state.stream_clock->on_end(event, clock().now());
  const auto* end = std::get_if<DoneEvent>(&event);
  if (end == nullptr || !state.parts->service->lengths) return;
  state.parts->service->lengths->observe({.rule = end->rule,
                                          .tokens = end->usage.completion_tokens,
                                          .default_maximum = state.default_maximum});
}

// What changed is kept as well, for a submission after a restart.
void SessionActor::steer(const SessionMachine::Output& output) {
  Steering steering;
  if (output.max_new_tokens) {
    steering.max_new_tokens = state.max_new_tokens = *output.max_new_tokens;
  }
  if (output.temperature) {
    SamplingParams sampling = *state.sampling;
    sampling.temperature = *output.temperature;
    steering.sampling = state.sampling = std::make_shared<const SamplingParams>(sampling);
  }
  if (!steering.max_new_tokens && !steering.sampling) return;
  if (state.service.scheduler) {
    send(state.service.scheduler, steer_atom::value, state.parts->id, std::move(steering));
  }
}

bool SessionActor::ending() const {
  if (!state.machine) return false;
  const SessionPhase phase = state.machine->phase();
  return phase == SessionPhase::kFlushing || phase == SessionPhase::kClosed;
}

}  // namespace sluice
