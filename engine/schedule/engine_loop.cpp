#include "engine/schedule/engine_loop.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

#ifdef NDEBUG
constexpr bool kAudit = false;
#else
constexpr bool kAudit = true;
#endif

void audit(const Scheduler& scheduler, const KvManager& kv) {
  std::string fault = scheduler.audit();
  if (fault.empty()) fault = kv.audit();
  if (!fault.empty())
    throw Error(ErrorCode::kInternal, "An integrity check failed: " + fault + ".");
}

/// True when somebody was admitted.
bool admit(Scheduler& scheduler, KvManager& kv) {
  std::vector<std::pair<SequenceId, KvAdmission>> answers;
  for (const Scheduler::AdmissionWant& want : scheduler.admissions()) {
    answers.emplace_back(want.sequence, kv.admit(want.sequence, want.tokens, want.salt, want.fork));
    if (answers.back().second.verdict != KvAdmission::Verdict::kAdmitted) break;
  }
  for (const auto& [id, answer] : answers) scheduler.on_admission(id, answer);
  return std::ranges::any_of(answers, [](const auto& answer) {
    return answer.second.verdict == KvAdmission::Verdict::kAdmitted;
  });
}

}  // namespace

EngineLoop::EngineLoop(Backend& backend, Scheduler& scheduler, KvManager& kv)
    : backend_(backend), scheduler_(scheduler), kv_(kv) {}

bool EngineLoop::run_once(const std::function<void(const Publication&)>& on_publication) {
  bool active = admit(scheduler_, kv_);
  const std::vector<KvWant> wants = scheduler_.plan();
  std::vector<KvGrant> grants;
  for (const KvWant& want : wants) grants.push_back(ask_for(kv_, want));
  for (auto victims = scheduler_.preempt_for(grants); !victims.empty();
       victims = scheduler_.preempt_for(grants)) {
    active = true;
    for (const SequenceId victim : victims) kv_.preempt(victim);
    for (std::size_t i = 0; i < wants.size(); ++i) {
      if (!grants[i].granted) grants[i] = ask_for(kv_, wants[i]);
    }
  }
  StepBatch batch = scheduler_.build(grants);

  Scheduler::Outcome outcome;
  if (batch.slices.empty()) {
    outcome = scheduler_.poll(Scheduler::Clock::now());
  } else {
    active = true;
    batch.moves = kv_.take_moves();
    const StepResult result = backend_.step(batch);
    outcome = scheduler_.complete(result);
    if (!result.fatal.empty()) {
      throw Error(ErrorCode::kInternal, "The backend can't go on: " + result.fatal + ".");
    }
  }
  for (const Scheduler::Commit& commit : outcome.commits)
    kv_.commit(commit.sequence, commit.tokens);
  for (const SequenceId id : outcome.released) kv_.release(id);
  if (kAudit) audit(scheduler_, kv_);
  for (const Publication& publication : outcome.publications) on_publication(publication);
  return active || !outcome.publications.empty();
}

std::vector<SampledToken> EngineLoop::generate(SequenceRequest request) {
  const SequenceId id = request.id;
  const Position max_new_tokens = request.max_new_tokens;
  const std::vector<TokenId> end_tokens = request.end_tokens;
  const Position min_new_tokens = request.sampling ? request.sampling->min_new_tokens : 0;
  Position drawn = static_cast<Position>(request.generated.size());
  request.credit = std::max(request.credit, max_new_tokens);
  const RejectReason reason = scheduler_.submit(std::move(request), Scheduler::Clock::now());
  if (reason != RejectReason::kNone) {
    throw Error(ErrorCode::kInvalidArgument, reject_message(reason));
  }

  std::vector<SampledToken> tokens;
  std::string failure;
  bool ended = drawn >= max_new_tokens;
  const auto on_publication = [&](const Publication& publication) {
    if (publication.sequence != id) return;
    switch (publication.kind) {
      case Publication::Kind::kPrefill:
        break;
      case Publication::Kind::kToken: {
        const TokenId token = publication.token.id;
        tokens.push_back(publication.token);
        ++drawn;
        const bool is_end = std::ranges::find(end_tokens, token) != end_tokens.end();
        ended = ended || drawn >= max_new_tokens || (is_end && drawn >= min_new_tokens);
        break;
      }
      case Publication::Kind::kEndOfRoom:
        ended = true;
        break;
      case Publication::Kind::kFailed:
      case Publication::Kind::kExpired:
        ended = true;
        failure = publication.message;
        break;
    }
  };
  try {
    while (!ended && run_once(on_publication)) {
    }
  } catch (...) {
    forget(id);
    throw;
  }
  forget(id);
  if (!failure.empty()) throw Error(ErrorCode::kInternal, failure);
  if (!ended) {
    throw Error(ErrorCode::kInternal,
                "The sequence can't go on: other sequences hold the KV blocks that it needs.");
  }
  return tokens;
}

void EngineLoop::forget(SequenceId id) {
  scheduler_.remove(id);
  kv_.release(id);
}

}  // namespace sluice
