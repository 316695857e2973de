// The way to a step: plan, ask for blocks, preempt where they don't suffice, build.
#include <algorithm>
#include <utility>

#include "engine/schedule/scheduler_state.hpp"

namespace sluice {

KvGrant ask_for(KvManager& kv, const KvWant& want) {
  KvGrant grant;
  grant.sequence = want.sequence;
  grant.granted = kv.reserve(want.sequence, want.positions);
  if (!grant.granted) {
    grant.unknown = !kv.contains(want.sequence);
    return grant;
  }
  const auto first = kv.table(want.sequence);
  grant.blocks.assign(first.begin(), first.end());
  for (std::size_t group = 1; group < kv.num_groups(); ++group) {
    const auto table = kv.table(want.sequence, group);
    grant.more_blocks.emplace_back(table.begin(), table.end());
  }
  return grant;
}

KvPoolShape pool_for(const KvManagerOptions& options) {
  KvPoolShape shape;
  shape.num_blocks = options.num_blocks;
  shape.block_size = options.block_size;
  shape.visibility = options.visibility;
  shape.swap_slots = options.swap_slots;
  shape.more_groups = options.more_groups;
  return shape;
}

std::vector<KvWant> Scheduler::plan() {
  impl_->planned.clear();
  impl_->changes_at_plan = impl_->changes;
  impl_->returns_at_plan = impl_->returns;
  if (impl_->step || impl_->step_stalled) return {};
  impl_->planned = plan_step(impl_->running, impl_->options);
  std::vector<KvWant> wants;
  for (const PlannedSlice& slice : impl_->planned) {
    wants.push_back({slice.id, impl_->find(slice.id)->computed + slice.num_tokens});
  }
  return wants;
}

std::vector<SequenceId> Scheduler::preempt_for(std::span<const KvGrant> grants) {
  Impl& self = *impl_;
  self.take_grants(grants);
  std::erase_if(self.planned, [&](const auto& slice) { return !self.find_running(slice); });

  // The most senior one that got nothing asks; a sequence younger than it makes room.
  Sequence* asker = nullptr;
  bool any_granted = false;
  for (const PlannedSlice& slice : self.planned) {
    any_granted = any_granted || slice.granted;
    Sequence* sequence = self.find_running(slice);
    if (!slice.granted && (asker == nullptr || sequence->arrival < asker->arrival)) {
      asker = sequence;
    }
  }
  Sequence* victim = nullptr;
  if (asker != nullptr && self.running.back() != asker) {
    victim = self.running.back();
  } else if (!any_granted &&
             (asker != nullptr || (self.planned.empty() && self.admission_blocked))) {
    // Nothing at all can move. Whoever has been idle for long gives way, though older.
    const auto idle = std::find_if(self.running.rbegin(), self.running.rend(),
                                   [&](const Sequence* s) { return self.idle_for_long(*s); });
    if (idle != self.running.rend()) victim = *idle;
  }
  if (victim != nullptr) {
    const SequenceId id = victim->id;
    std::erase_if(self.planned, [&](const auto& slice) { return slice.id == id; });
    self.preempt(*victim);
    self.wake();
    return {id};
  }
  const bool alone = self.running.size() == 1 && self.returns == self.returns_at_plan;
  if (asker != nullptr && alone) {
    std::erase_if(self.planned, [&](const auto& slice) { return slice.id == asker->id; });
    self.end_of_room(*asker);
  }
  return {};
}

StepBatch Scheduler::build(std::span<const KvGrant> grants) {
  Impl& self = *impl_;
  self.take_grants(grants);
  const bool wanted = !self.planned.empty();
  std::vector<PlannedSlice> step;
  StepBatch batch;
  batch.number = self.stats.steps + 1;
  for (PlannedSlice& slice : self.planned) {
    Sequence* sequence = self.find_running(slice);
    if (sequence == nullptr || !slice.granted) continue;
    // Its session may have changed its mind since plan().
    slice.num_tokens = std::min(slice.num_tokens, sequence->feedable());
    if (slice.num_tokens <= 0) continue;
    const auto begin = sequence->tokens.begin() + sequence->computed;
    StepSlice part;
    part.sequence = sequence->id;
    part.first_position = sequence->computed;
    part.tokens.assign(begin, begin + slice.num_tokens);
    part.blocks = std::move(slice.blocks);
    part.more_blocks = std::move(slice.more_blocks);
    part.encoder_positions = sequence->num_encoder;
    if (sequence->encoder_remaining() > 0) {
      const auto input = sequence->encoder_input();
      part.encoder_input.assign(input.begin(), input.end());
    }
    part.sample = slice.num_tokens == sequence->remaining();
    if (part.sample) {
      part.sampling = sequence->sampling;
      // Penalties look at what the decoder has read.
      if (part.sampling->needs_history())
        part.history.assign(sequence->tokens.begin() + sequence->num_encoder,
                            sequence->tokens.end());
    }
    part.num_generated = sequence->num_output();
    batch.slices.push_back(std::move(part));
    sequence->last_step = batch.number;
    sequence->idle_since.reset();
    step.push_back(std::move(slice));
  }
  self.planned.clear();
  if (step.empty()) {
    self.step_stalled = wanted && self.changes == self.changes_at_plan;
    return batch;
  }
  self.stats.steps = batch.number;
  self.stats.last_batch_tokens = batch.num_tokens();
  self.stats.last_batch_sequences = static_cast<std::int32_t>(batch.slices.size());
  self.step = std::move(step);
  return batch;
}

void Scheduler::Impl::take_grants(std::span<const KvGrant> grants) {
  for (const KvGrant& grant : grants) {
    const auto slice = std::ranges::find(planned, grant.sequence, &PlannedSlice::id);
    if (slice == planned.end()) continue;
    if (grant.unknown) {
      planned.erase(slice);
      continue;
    }
    if (!grant.granted || slice->granted || find_running(*slice) == nullptr) continue;
    slice->granted = true;
    slice->blocks = grant.blocks;
    slice->more_blocks = grant.more_blocks;
  }
}

bool Scheduler::Impl::idle_for_long(const Sequence& sequence) const {
  if (options.idle_preempt_after.count() <= 0) return false;
  return sequence.feedable() == 0 && sequence.idle_since &&
         last_poll - *sequence.idle_since >= options.idle_preempt_after;
}

}  // namespace sluice
