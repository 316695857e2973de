#include "actors/kv_manager_actor.hpp"

#include <utility>

#include "actors/actor_base.hpp"

namespace sluice {

KvManagerActor::KvManagerActor(caf::actor_config& config, KvManagerParts parts)
    : stateful_actor(config) {
  state.kv = std::make_unique<KvManager>(parts.options);
  state.board = std::move(parts.board);
}

KvManagerActor::behavior_type KvManagerActor::make_behavior() {
  set_default_handlers(*this, state.name);
  set_down_handler([this](caf::down_msg& down) { on_session_down(down.source); });
  changed();
  return {
      [this](admit_atom, const AdmitRequest& request) { return admit(request); },
      [this](reserve_atom, const ReserveRequest& request) { return reserve(request); },
      [this](commit_atom, const CommitNotice& notice) { commit(notice); },
      [this](release_atom, SequenceId sequence) {
        release(sequence);
        changed();
      },
      [this](reset_atom) {
        reset();
        return reset_atom::value;
      },
      [this](inspect_atom) { return view(); },
  };
}

KvView KvManagerActor::view() {
  KvView view{state.kv->block_size(), {}, mailbox().size()};
  for (std::size_t group = 0; group < state.kv->num_groups(); ++group) {
    const auto blocks = state.kv->block_map(group);
    view.blocks.insert(view.blocks.end(), blocks.begin(), blocks.end());
  }
  return view;
}

AdmitAnswer KvManagerActor::admit(const AdmitRequest& request) {
  AdmitAnswer answer;
  for (const AdmitRequest::Entry& entry : request.entries) {
    KvAdmission admission = state.kv->admit(entry.sequence, entry.tokens, entry.salt, entry.fork);
    const bool admitted = admission.verdict == KvAdmission::Verdict::kAdmitted;
    if (admitted) watch(entry.sequence, entry.session);
    answer.entries.push_back({entry.sequence, std::move(admission)});
    if (!admitted) break;  // first come, first served
  }
  answer.moves = state.kv->take_moves();
  changed();
  return answer;
}

ReserveAnswer KvManagerActor::reserve(const ReserveRequest& request) {
  for (const SequenceId sequence : request.preempt) {
    if (!state.kv->preempt(sequence)) unwatch(sequence);
  }
  ReserveAnswer answer;
  for (const SequenceId sequence : request.held) {
    if (!state.kv->contains(sequence)) answer.gone.push_back(sequence);
  }
  for (const KvWant& want : request.wants) answer.grants.push_back(ask_for(*state.kv, want));
  answer.moves = state.kv->take_moves();
  changed();
  return answer;
}

void KvManagerActor::commit(const CommitNotice& notice) {
  for (const Scheduler::Commit& commit : notice.commits) {
    state.kv->commit(commit.sequence, commit.tokens);
  }
  for (const SequenceId sequence : notice.released) release(sequence);
  changed();
}

void KvManagerActor::release(SequenceId sequence) {
  unwatch(sequence);
  state.kv->release(sequence);
}

void KvManagerActor::reset() {
  for (const auto& [session, sequence] : state.sequence_of) demonitor(session);
  state.sequence_of.clear();
  state.session_of.clear();
  state.kv->reset();
  changed();
}

void KvManagerActor::on_session_down(const caf::actor_addr& session) {
  const auto found = state.sequence_of.find(session);
  if (found == state.sequence_of.end()) return;  // released a moment before
  release(found->second);
  changed();
}

void KvManagerActor::watch(SequenceId sequence, const SessionRef& session) {
  if (!session) return;
  const caf::actor_addr address = session.address();
  if (!state.session_of.emplace(sequence, address).second) return;
  state.sequence_of.emplace(address, sequence);
  monitor(session);
}

void KvManagerActor::unwatch(SequenceId sequence) {
  const auto found = state.session_of.find(sequence);
  if (found == state.session_of.end()) return;
  demonitor(found->second);
  state.sequence_of.erase(found->second);
  state.session_of.erase(found);
}

void KvManagerActor::changed() {
  state.board->kv(state.kv->stats());
#ifndef NDEBUG
  if (const std::string fault = state.kv->audit(); !fault.empty()) {
    log_warning("kv_manager: " + fault);
    quit(caf::make_error(ActorError::kAuditFailed, fault));
  }
#endif
}

}  // namespace sluice
