#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "engine/schedule/scheduler_state.hpp"

namespace sluice {
namespace {

/// How often poll() tries again what got no blocks although nothing has happened here.
constexpr std::chrono::milliseconds kRetryInterval{50};

/// What cross-attention reads depends on the whole input, and not on the tokens of a block alone:
/// two sequences share blocks only when all of it is the same. The length keeps salt and input
/// apart.
std::string salt_of_input(const std::string& salt, std::span<const TokenId> input) {
  std::string all = std::to_string(salt.size()) + ':' + salt;
  const auto bytes = std::as_bytes(input);
  all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

}  // namespace

std::string reject_message(RejectReason reason) {
  switch (reason) {
    case RejectReason::kNone:
      return "";
    case RejectReason::kQueueFull:
      return "The queue is full; try again later.";
    case RejectReason::kPromptTooLong:
      return "The prompt leaves no room for an answer in the context; shorten it or start the "
             "engine with a larger context.";
    case RejectReason::kInputTooLong:
      return "The prompt is longer than the encoder takes; shorten it or start the engine with a "
             "larger --token-budget, as far as the model allows.";
    case RejectReason::kEmptyPrompt:
      return "The prompt has no tokens; send at least one.";
    case RejectReason::kDuplicateId:
      return "A sequence of this number is being served already; use another number.";
    case RejectReason::kStopping:
      return "The engine is shutting down and takes no new requests.";
  }
  return "";
}

Scheduler::Scheduler(const SchedulerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Scheduler::~Scheduler() = default;

// -- requests of sessions ---------------------------------------------------------------------

RejectReason Scheduler::submit(SequenceRequest request, Clock::time_point now) {
  const SchedulerOptions& options = impl_->options;
  const auto prompt = static_cast<std::int64_t>(request.prompt.size());
  if (request.prompt.empty()) return RejectReason::kEmptyPrompt;
  if (options.context_length > 0 && prompt > options.context_length - 1) {
    return RejectReason::kPromptTooLong;
  }
  const bool has_encoder = options.max_encoder_input > 0;
  if (has_encoder && prompt < 2) return RejectReason::kEmptyPrompt;
  if (has_encoder && prompt - 1 > options.max_encoder_input) return RejectReason::kInputTooLong;
  if (impl_->sequences.contains(request.id)) return RejectReason::kDuplicateId;
  // A stream that continues has been accepted before: it is not turned away now.
  const WaitingQueue& queue = impl_->waiting;
  const bool full =
      static_cast<std::int64_t>(queue.size()) >= options.max_waiting ||
      (!queue.empty() && queue.num_tokens() + request.prompt.size() > options.max_waiting_tokens);
  if (request.generated.empty() && full) return RejectReason::kQueueFull;

  auto sequence = std::make_unique<Sequence>();
  sequence->id = request.id;
  sequence->arrival = ++impl_->arrivals;
  sequence->tokens = std::move(request.prompt);
  sequence->num_prompt = static_cast<Position>(prompt);
  sequence->tokens.insert(sequence->tokens.end(), request.generated.begin(),
                          request.generated.end());
  sequence->sampling = request.sampling != nullptr ? std::move(request.sampling)
                                                   : std::make_shared<const SamplingParams>();
  sequence->max_new_tokens = request.max_new_tokens;
  sequence->end_tokens = std::move(request.end_tokens);
  sequence->salt = std::move(request.salt);
  if (has_encoder) {
    sequence->num_encoder = sequence->num_prompt - 1;
    sequence->salt = salt_of_input(sequence->salt, sequence->encoder_input());
  }
  sequence->sample_group = request.sample_group;
  sequence->priority = request.priority;
  sequence->credit = std::max(request.credit, 0);
  sequence->submitted = now;
  sequence->started = sequence->num_output() > 0;
  if (sequence->num_output() >= sequence->max_new_tokens) sequence->hold = Hold::kMaximum;
  Sequence& entry = *sequence;
  impl_->sequences.emplace(entry.id, std::move(sequence));
  impl_->waiting.insert(entry);
  if (options.context_length > 0 && entry.total() >= options.context_length) {
    impl_->end_of_room(entry);
  }
  impl_->wake();
  return RejectReason::kNone;
}

bool Scheduler::remove(SequenceId id) {
  Sequence* sequence = impl_->find(id);
  if (sequence == nullptr) return false;
  std::erase_if(impl_->pending.publications, [&](const auto& p) { return p.sequence == id; });
  impl_->erase(*sequence);
  impl_->wake();
  return true;
}

void Scheduler::add_credit(SequenceId id, std::int32_t tokens) {
  Sequence* sequence = impl_->find(id);
  if (sequence == nullptr || tokens <= 0) return;
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  sequence->credit = tokens > kMost - sequence->credit ? kMost : sequence->credit + tokens;
  impl_->wake();
}

void Scheduler::set_sampling(SequenceId id, std::shared_ptr<const SamplingParams> sampling) {
  Sequence* sequence = impl_->find(id);
  if (sequence != nullptr && sampling != nullptr) sequence->sampling = std::move(sampling);
}

void Scheduler::set_max_new_tokens(SequenceId id, Position max_new_tokens) {
  Sequence* sequence = impl_->find(id);
  if (sequence == nullptr) return;
  sequence->max_new_tokens = max_new_tokens;
  const bool reached = sequence->num_output() >= max_new_tokens;
  if (reached && sequence->hold == Hold::kNone) sequence->hold = Hold::kMaximum;
  // With more room, an end token as the last one still waits for its own verdict.
  if (sequence->hold == Hold::kMaximum) sequence->hold = sequence->hold_after_last();
  impl_->wake();
}

void Scheduler::resume_after_verdict(SequenceId id) {
  Sequence* sequence = impl_->find(id);
  if (sequence == nullptr || sequence->hold == Hold::kNoRoom) return;
  sequence->hold = Hold::kNone;
  impl_->wake();
}

// -- admission --------------------------------------------------------------------------------

std::vector<Scheduler::AdmissionWant> Scheduler::admissions() const {
  std::vector<AdmissionWant> wants;
  impl_->changes_at_admissions = impl_->changes;
  impl_->for_each_candidate([&](const Sequence& sequence, const Sequence* sample) {
    KvFork fork;
    if (sample != nullptr) fork = {sample->id, sample->num_prompt - 1};
    wants.push_back({sequence.id, sequence.tokens, sequence.salt, fork});
  });
  return wants;
}

void Scheduler::on_admission(SequenceId id, const KvAdmission& admission) {
  Sequence* sequence = impl_->find(id);
  if (sequence == nullptr || sequence->running) return;
  switch (admission.verdict) {
    case KvAdmission::Verdict::kAdmitted:
      impl_->start(*sequence, admission);
      break;
    case KvAdmission::Verdict::kNotNow:
      impl_->admission_blocked = impl_->changes == impl_->changes_at_admissions;
      break;
    case KvAdmission::Verdict::kNever:
      if (sequence->num_output() > 0) {
        impl_->end_of_room(*sequence);
      } else {
        impl_->fail(*sequence,
                    "The prompt needs more KV blocks than the whole pool has; shorten it or give "
                    "the engine more memory.",
                    Publication::Kind::kFailed, impl_->pending);
      }
      break;
  }
}

// -- outside a step ---------------------------------------------------------------------------

Scheduler::Outcome Scheduler::poll(Clock::time_point now) {
  if (now - impl_->last_retry >= kRetryInterval) {
    impl_->last_retry = now;
    impl_->wake();
  }
  impl_->last_poll = now;
  for (Sequence* sequence : impl_->running) {
    if (sequence->feedable() > 0) {
      sequence->idle_since.reset();
    } else if (!sequence->idle_since) {
      sequence->idle_since = now;
    }
  }
  Outcome outcome;
  if (impl_->options.queue_deadline.count() > 0) {
    std::vector<Sequence*> expired;
    for (Sequence* sequence : impl_->waiting.entries()) {
      const bool late = now - sequence->submitted >= impl_->options.queue_deadline;
      if (late && !sequence->started) expired.push_back(sequence);
    }
    for (Sequence* sequence : expired) {
      impl_->fail(*sequence, "The request waited in the queue longer than its deadline allows.",
                  Publication::Kind::kExpired, outcome);
    }
  }
  impl_->take_pending(outcome);
  return outcome;
}

// -- observers --------------------------------------------------------------------------------

bool Scheduler::has_work() const {
  bool any_candidate = false;
  impl_->for_each_candidate([&](const Sequence&, const Sequence*) { any_candidate = true; });
  if (any_candidate || !impl_->pending.publications.empty()) return true;
  return !impl_->step && !impl_->step_stalled &&
         std::ranges::any_of(impl_->running, [](const Sequence* s) { return s->feedable() > 0; });
}

bool Scheduler::step_running() const {
  return impl_->step.has_value();
}

namespace {

SequencePhase phase_of(const Sequence& sequence) {
  if (!sequence.running) return SequencePhase::kWaiting;
  if (sequence.hold != Hold::kNone) return SequencePhase::kAwaitingVerdict;
  if (sequence.feedable() == 0) return SequencePhase::kPaused;
  return sequence.decoding() ? SequencePhase::kDecode : SequencePhase::kPrefill;
}

SequenceStatus status_of(const Sequence& sequence, std::int32_t queue_position) {
  SequenceStatus status;
  status.id = sequence.id;
  status.phase = phase_of(sequence);
  status.queue_position = queue_position;
  status.computed = sequence.computed;
  status.total = sequence.total();
  status.credit = sequence.credit;
  return status;
}

}  // namespace

std::optional<SequenceStatus> Scheduler::status(SequenceId id) const {
  const Sequence* sequence = impl_->find(id);
  if (sequence == nullptr) return std::nullopt;
  if (sequence->running) return status_of(*sequence, 0);
  const auto queue = impl_->waiting.entries();
  const auto place = std::ranges::find(queue, sequence);
  return status_of(*sequence, static_cast<std::int32_t>(place - queue.begin()) + 1);
}

std::vector<SequenceStatus> Scheduler::all() const {
  std::vector<SequenceStatus> all;
  for (const Sequence* sequence : impl_->running) all.push_back(status_of(*sequence, 0));
  std::int32_t place = 0;
  for (const Sequence* sequence : impl_->waiting.entries()) {
    all.push_back(status_of(*sequence, ++place));
  }
  return all;
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = impl_->stats;
  stats.waiting = static_cast<std::int32_t>(impl_->waiting.size());
  stats.running = static_cast<std::int32_t>(impl_->running.size());
  return stats;
}

std::string Scheduler::audit() const {
  if (impl_->running.size() + impl_->waiting.size() != impl_->sequences.size()) {
    return "a sequence is neither waiting nor running, or both";
  }
  if (static_cast<std::int64_t>(impl_->running.size()) > impl_->options.max_running) {
    return "more sequences run than max_running allows";
  }
  if (!std::ranges::is_sorted(impl_->running, {}, &Sequence::arrival)) {
    return "sequences are not in order of arrival";
  }
  if (!impl_->waiting.in_order()) return "the queue is not in order";
  std::size_t waiting_tokens = 0;
  for (const auto& [id, sequence] : impl_->sequences) {
    const std::string who = "sequence " + std::to_string(id);
    if (sequence->id != id) return who + " is filed under another number";
    if (sequence->credit < 0) return who + " has negative credit";
    if (sequence->num_prompt < 1 || sequence->num_output() < 0) return who + " lost its prompt";
    if (sequence->computed < 0 || sequence->remaining() < 1) {
      return who + " has more positions computed than it has tokens to feed";
    }
    if (sequence->running) continue;
    waiting_tokens += sequence->tokens.size();
    if (sequence->computed != 0) return who + " waits and has positions computed";
  }
  if (waiting_tokens != impl_->waiting.num_tokens()) return "the queue miscounts its tokens";
  return {};
}

// -- state changes ----------------------------------------------------------------------------

void Scheduler::Impl::start(Sequence& sequence, const KvAdmission& admission) {
  waiting.remove(sequence);
  running.insert(std::ranges::upper_bound(running, sequence.arrival, {}, &Sequence::arrival),
                 &sequence);
  step_stalled = false;
  sequence.running = true;
  sequence.started = true;
  sequence.computed = admission.cached_positions;
  sequence.idle_since.reset();
  if (!sequence.cached) {
    sequence.cached = std::min(admission.cached_positions, sequence.num_prompt);
  }
}

void Scheduler::Impl::stop_running(Sequence& sequence) {
  ++returns;
  std::erase(running, &sequence);
  sequence.running = false;
  sequence.computed = 0;
  sequence.idle_since.reset();
}

void Scheduler::Impl::preempt(Sequence& sequence) {
  stop_running(sequence);
  waiting.insert(sequence);
  ++stats.preemptions;
}

void Scheduler::Impl::erase(Sequence& sequence) {
  if (sequence.running) {
    stop_running(sequence);
  } else {
    waiting.remove(sequence);
  }
  const SequenceId id = sequence.id;
  sequences.erase(id);
}

void Scheduler::Impl::end_of_room(Sequence& sequence) {
  sequence.hold = Hold::kNoRoom;
  Publication publication;
  publication.sequence = sequence.id;
  publication.kind = Publication::Kind::kEndOfRoom;
  pending.publications.push_back(std::move(publication));
}

void Scheduler::Impl::fail(Sequence& sequence, std::string message, Publication::Kind kind,
                           Outcome& outcome) {
  Publication publication;
  publication.sequence = sequence.id;
  publication.kind = kind;
  publication.message = std::move(message);
  outcome.publications.push_back(std::move(publication));
  outcome.released.push_back(sequence.id);
  erase(sequence);
  wake();
}

void Scheduler::Impl::take_pending(Outcome& outcome) {
  std::ranges::move(pending.publications, std::back_inserter(outcome.publications));
  std::ranges::move(pending.released, std::back_inserter(outcome.released));
  pending = {};
}

}  // namespace sluice
