#include "engine/schedule/step_plan.hpp"

#include <algorithm>
#include <tuple>

namespace sluice {
namespace {

bool waited_longer(const Sequence* a, const Sequence* b) {
  return std::tie(a->last_step, a->arrival) < std::tie(b->last_step, b->arrival);
}

void keep_longest_waiting(std::vector<Sequence*>& sequences, std::size_t count) {
  if (count >= sequences.size()) return;
  std::ranges::sort(sequences, waited_longer);
  sequences.resize(count);
  std::ranges::sort(sequences, {}, &Sequence::arrival);
}

/// How many tokens of the budget go to decodes.
Position decode_share(const std::vector<Sequence*>& decodes, const std::vector<Sequence*>& prefills,
                      Position budget) {
  const auto wanted = static_cast<Position>(decodes.size());
  if (prefills.empty() || wanted < budget) return std::min(wanted, budget);
  if (budget > 1) return budget - 1;
  const Sequence* decode = *std::ranges::min_element(decodes, waited_longer);
  return waited_longer(decode, prefills.front()) ? 1 : 0;
}

}  // namespace

std::vector<PlannedSlice> plan_step(std::span<Sequence* const> running,
                                    const SchedulerOptions& options) {
  std::vector<Sequence*> decodes;
  std::vector<Sequence*> prefills;
  for (Sequence* sequence : running) {
    if (sequence->feedable() > 0) (sequence->decoding() ? decodes : prefills).push_back(sequence);
  }
  Position budget = std::max(options.token_budget, 1);
  keep_longest_waiting(decodes, static_cast<std::size_t>(decode_share(decodes, prefills, budget)));
  std::vector<PlannedSlice> plan;
  for (const Sequence* sequence : decodes) {
    plan.push_back({sequence->id, sequence->arrival, 1});
    --budget;
  }
  Position encoder_budget = options.max_encoder_input;
  for (const Sequence* sequence : prefills) {
    if (budget == 0) break;
    // The whole input goes through the encoder, also when part of what it gives is there already.
    const Position encoder = sequence->encoder_remaining();
    if (encoder > 0) {
      if (sequence->num_encoder > encoder_budget) continue;
      encoder_budget -= sequence->num_encoder;
    }
    const Position chunk =
        std::min({sequence->feedable() - encoder, std::max(options.prefill_chunk, 1), budget});
    plan.push_back({sequence->id, sequence->arrival, encoder + chunk});
    budget -= chunk;
  }
  return plan;
}

}  // namespace sluice
