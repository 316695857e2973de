#include "actors/scheduler_actor.hpp"

#include <algorithm>
#include <utility>

#include "actors/actor_base.hpp"

namespace sluice {

namespace {

/// Sequences asked for in one admission; the others wait for the next step.
constexpr std::size_t kMaxAdmissionsPerStep = 16;

/// How often a waiting queue is looked at when no step comes along.
constexpr std::chrono::milliseconds kLookInterval{50};

}  // namespace

SchedulerActor::SchedulerActor(caf::actor_config& config, SchedulerParts parts)
    : stateful_actor(config) {
  state.scheduler = std::make_unique<Scheduler>(parts.options);
  state.parts = std::move(parts);
}

SchedulerActor::behavior_type SchedulerActor::make_behavior() {
  set_default_handlers(*this, state.name);
  set_down_handler([this](caf::down_msg& down) {
    const auto found = state.sequence_of.find(down.source);
    if (found == state.sequence_of.end()) return;
    forget(found->second);
    advance();
  });
  return {
      [this](submit_atom, Submission& submission) { return submit(submission); },
      [this](credit_atom, SequenceId sequence, std::int32_t tokens) {
        state.scheduler->add_credit(sequence, tokens);
        advance();
      },
      [this](go_on_atom, SequenceId sequence) {
        state.scheduler->resume_after_verdict(sequence);
        advance();
      },
      [this](steer_atom, SequenceId sequence, const Steering& steering) {
        if (steering.max_new_tokens) {
          state.scheduler->set_max_new_tokens(sequence, *steering.max_new_tokens);
        }
        if (steering.sampling) state.scheduler->set_sampling(sequence, steering.sampling);
        advance();
      },
      [this](remove_atom, SequenceId sequence) {
        forget(sequence);
        advance();
      },
      [this](status_atom, SequenceId sequence) {
        return state.scheduler->status(sequence).value_or(SequenceStatus{.id = sequence});
      },
      [this](tick_atom) {
        state.timer_pending = false;
        advance();
      },
      [this](inspect_atom) {
        state.recorder.arm();
        return SchedulerView{state.scheduler->all(), state.recorder.steps(), mailbox().size()};
      },
  };
}

RejectReason SchedulerActor::submit(Submission& submission) {
  const SequenceId sequence = submission.request.id;
  const RejectReason reason = state.scheduler->submit(std::move(submission.request), clock().now());
  if (reason != RejectReason::kNone) return reason;
  const SessionRef& session = submission.session;
  state.sequence_of.emplace(session.address(), sequence);
  state.sessions.emplace(sequence, session);
  monitor(session);  // one that has died meanwhile is reported at once
  advance();
  return reason;
}

void SchedulerActor::forget(SequenceId sequence) {
  if (state.scheduler->remove(sequence)) {
    // Also while waiting: an admission may be on its way, and the release must follow it.
    send(state.parts.kv, release_atom::value, sequence);
    state.released_since = true;
  }
  unwatch(sequence);
}

void SchedulerActor::unwatch(SequenceId sequence) {
  const auto found = state.sessions.find(sequence);
  if (found == state.sessions.end()) return;
  const caf::actor_addr address = found->second.address();
  demonitor(address);
  state.sequence_of.erase(address);
  state.sessions.erase(found);
}

// -- the step -------------------------------------------------------------------------------------

void SchedulerActor::advance() {
  if (state.stage == SchedulerStage::kIdle) {
    collect(state.scheduler->poll(clock().now()));
    admit();
  }
  publish();
  report();
}

void SchedulerActor::admit() {
  const std::vector<Scheduler::AdmissionWant> wants = state.scheduler->admissions();
  if (wants.empty()) return plan();
  // Asking again for a sequence that did not fit costs a walk over its whole prompt, and the
  // answer can only have changed when blocks came back.
  const SequenceId head = wants.front().sequence;
  if (head == state.refused_head && !state.released_since) {
    state.scheduler->on_admission(head, KvAdmission{});  // not now
    return plan();
  }
  AdmitRequest request;
  for (const Scheduler::AdmissionWant& want : wants) {
    if (request.entries.size() == kMaxAdmissionsPerStep) break;
    const auto session = state.sessions.find(want.sequence);
    request.entries.push_back(
        {.sequence = want.sequence,
         .tokens = {want.tokens.begin(), want.tokens.end()},
         .salt = std::string(want.salt),
         .fork = want.fork,
         .session = session == state.sessions.end() ? SessionRef{} : session->second});
  }
  state.refused_head = 0;
  state.released_since = false;
  state.stage = SchedulerStage::kAdmitting;
  this->request(state.parts.kv, caf::infinite, admit_atom::value, std::move(request))
      .then([this](const AdmitAnswer& answer) { on_admitted(answer); },
            [this](const caf::error& reason) { broken(reason); });
}

void SchedulerActor::on_admitted(const AdmitAnswer& answer) {
  state.moves.insert(state.moves.end(), answer.moves.begin(), answer.moves.end());
  for (const AdmitAnswer::Entry& entry : answer.entries) {
    state.scheduler->on_admission(entry.sequence, entry.admission);
    if (entry.admission.verdict == KvAdmission::Verdict::kNotNow) {
      state.refused_head = entry.sequence;
    }
  }
  plan();
  publish();
  report();
}

void SchedulerActor::plan() {
  std::vector<KvWant> wants = state.scheduler->plan();
  state.grants.clear();
  state.wanted.clear();
  for (const KvWant& want : wants) state.wanted.emplace(want.sequence, want.positions);
  if (wants.empty()) return decide();
  ReserveRequest request;
  request.wants = std::move(wants);
  reserve(std::move(request));
}

void SchedulerActor::reserve(ReserveRequest request) {
  state.stage = SchedulerStage::kReserving;
  this->request(state.parts.kv, caf::infinite, reserve_atom::value, std::move(request))
      .then([this](ReserveAnswer& answer) { on_reserved(answer); },
            [this](const caf::error& reason) { broken(reason); });
}

void SchedulerActor::on_reserved(ReserveAnswer& answer) {
  state.moves.insert(state.moves.end(), answer.moves.begin(), answer.moves.end());
  // A session died and the KV manager knew first: neither a grant nor a reason to preempt.
  std::vector<SequenceId> gone = std::move(answer.gone);
  for (KvGrant& grant : answer.grants) {
    if (grant.unknown) gone.push_back(grant.sequence);
    state.grants.push_back(std::move(grant));
  }
  for (const SequenceId sequence : gone) {
    std::erase_if(state.grants, [&](const KvGrant& g) { return g.sequence == sequence; });
    forget(sequence);
  }
  decide();
  publish();
  report();
}

/// Everything planned has its answer: run it, or make room first.
void SchedulerActor::decide() {
  std::vector<SequenceId> victims = state.scheduler->preempt_for(state.grants);
  if (victims.empty()) return run();
  ask_again(std::move(victims));
}

void SchedulerActor::ask_again(std::vector<SequenceId> victims) {
  ReserveRequest request;
  request.preempt = std::move(victims);
  state.released_since = true;
  state.made_room = true;
  for (const SequenceId victim : request.preempt) {
    std::erase_if(state.grants, [&](const KvGrant& g) { return g.sequence == victim; });
  }
  for (const KvGrant& grant : state.grants) {
    if (grant.granted) {
      request.held.push_back(grant.sequence);
    } else {
      request.wants.push_back({grant.sequence, state.wanted.at(grant.sequence)});
    }
  }
  std::erase_if(state.grants, [](const KvGrant& g) { return !g.granted; });
  reserve(std::move(request));
}

void SchedulerActor::run() {
  StepBatch batch = state.scheduler->build(state.grants);
  state.grants.clear();
  if (batch.slices.empty()) {
    // Preparing the step may have ended sequences (no room); their sessions must hear it now.
    collect(state.scheduler->poll(clock().now()));
    state.stage = SchedulerStage::kIdle;
    if (std::exchange(state.made_room, false)) return advance();
    arm_timer();
    return;
  }
  batch.moves = std::exchange(state.moves, {});
  state.made_room = false;
  state.stage = SchedulerStage::kRunning;
  state.recorder.begin(batch);
  state.batch_tokens = batch.num_tokens();
  state.batch_sequences = batch.slices.size();
  this->request(state.parts.executor, caf::infinite, step_atom::value, std::move(batch))
      .then([this](const StepResult& result) { on_result(result); },
            [this](const caf::error& reason) { broken(reason); });
}

void SchedulerActor::on_result(const StepResult& result) {
  if (!result.fatal.empty()) {
    return broken(caf::make_error(ActorError::kBackendFailed, result.fatal));
  }
  state.recorder.end(result);
  Scheduler::Outcome outcome = state.scheduler->complete(result);
  state.parts.board->step(result.duration, state.batch_tokens, state.batch_sequences);
  collect(std::move(outcome));
  state.stage = SchedulerStage::kIdle;
  advance();
}

void SchedulerActor::collect(Scheduler::Outcome outcome) {
  std::move(outcome.publications.begin(), outcome.publications.end(),
            std::back_inserter(state.unpublished));
  if (!outcome.released.empty()) state.released_since = true;
  if (outcome.commits.empty() && outcome.released.empty()) return;
  send(state.parts.kv, commit_atom::value,
       CommitNotice{std::move(outcome.commits), std::move(outcome.released)});
}

void SchedulerActor::publish() {
  if (state.unpublished.empty()) return;
  std::vector<Publication> all = std::exchange(state.unpublished, {});
  std::stable_sort(all.begin(), all.end(), [](const Publication& a, const Publication& b) {
    return a.sequence < b.sequence;
  });
  for (auto begin = all.begin(); begin != all.end();) {
    const SequenceId sequence = begin->sequence;
    auto end = std::find_if(begin, all.end(),
                            [&](const Publication& p) { return p.sequence != sequence; });
    const bool over = std::any_of(begin, end, [](const Publication& p) {
      return p.kind == Publication::Kind::kFailed || p.kind == Publication::Kind::kExpired;
    });
    if (const auto session = state.sessions.find(sequence); session != state.sessions.end()) {
      send(session->second, publish_atom::value, state.parts.epoch,
           Publications{{std::make_move_iterator(begin), std::make_move_iterator(end)}});
    }
    if (over) unwatch(sequence);
    begin = end;
  }
}

void SchedulerActor::broken(const caf::error& reason) {
  if (state.stage == SchedulerStage::kBroken) return;
  log_warning("scheduler: step failed: " + describe(reason));
  state.stage = SchedulerStage::kBroken;
}

// Queue deadlines, and sequences that have been idle for long, are noticed by looking.
void SchedulerActor::arm_timer() {
  if (state.timer_pending || state.scheduler->stats().waiting == 0) return;
  state.timer_pending = true;
  delayed_send(this, kLookInterval, tick_atom::value);
}

void SchedulerActor::report() {
  state.parts.board->scheduler(state.scheduler->stats());
#ifndef NDEBUG
  if (const std::string fault = state.scheduler->audit(); !fault.empty()) {
    log_warning("scheduler: " + fault);
    quit(caf::make_error(ActorError::kAuditFailed, fault));
  }
#endif
}

}  // namespace sluice
