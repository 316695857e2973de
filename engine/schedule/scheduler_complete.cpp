// What a step's result means for the sequences that took part.
#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/schedule/scheduler_state.hpp"

namespace sluice {

Scheduler::Outcome Scheduler::complete(const StepResult& result) {
  Outcome outcome;
  Impl& self = *impl_;
  if (self.step && result.number == self.stats.steps) {
    const std::vector<PlannedSlice> step = *std::exchange(self.step, std::nullopt);
    self.wake();
    if (result.fatal.empty()) {
      for (std::size_t i = 0; i < step.size(); ++i) {
        const bool answered = i < result.slices.size() && result.slices[i].sequence == step[i].id;
        const SliceResult missing{step[i].id, std::nullopt, "The backend gave no result for it."};
        self.apply(step[i], answered ? result.slices[i] : missing, outcome);
      }
    }
  }
  self.take_pending(outcome);
  return outcome;
}

void Scheduler::Impl::apply(const PlannedSlice& slice, const SliceResult& result,
                            Outcome& outcome) {
  Sequence* sequence = find_running(slice);
  if (sequence == nullptr) return;  // removed while the step ran
  const bool sampled = slice.num_tokens == sequence->remaining();
  if (!result.error.empty() || (sampled && !result.token)) {
    fail(*sequence, result.error.empty() ? "The backend drew no token." : result.error,
         Publication::Kind::kFailed, outcome);
    return;
  }
  const bool decode = sequence->decoding();
  const auto begin = sequence->tokens.begin() + sequence->computed;
  outcome.commits.push_back({sequence->id, {begin, begin + slice.num_tokens}});
  sequence->computed += slice.num_tokens;
  if (!decode) {
    stats.prompt_tokens += static_cast<std::uint64_t>(slice.num_tokens);
    Publication progress;
    progress.sequence = sequence->id;
    progress.kind = Publication::Kind::kPrefill;
    progress.done = sequence->computed;
    progress.total = sequence->total();
    progress.cached = sequence->cached.value_or(0);
    outcome.publications.push_back(std::move(progress));
  }
  if (sampled) take_token(*sequence, *result.token, outcome);
}

void Scheduler::Impl::take_token(Sequence& sequence, const SampledToken& token, Outcome& outcome) {
  sequence.tokens.push_back(token.id);
  sequence.credit = std::max(sequence.credit - 1, 0);
  ++stats.generated_tokens;
  Publication drawn;
  drawn.sequence = sequence.id;
  drawn.kind = Publication::Kind::kToken;
  drawn.token = token;
  outcome.publications.push_back(std::move(drawn));

  if (options.context_length > 0 && sequence.total() >= options.context_length) {
    sequence.hold = Hold::kNoRoom;
    Publication full;
    full.sequence = sequence.id;
    full.kind = Publication::Kind::kEndOfRoom;
    outcome.publications.push_back(std::move(full));
  } else {
    sequence.hold = sequence.hold_after_last();
  }
}

}  // namespace sluice
