#include "engine/sampling/logit_adjustments.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace sluice {
namespace {

bool in_vocabulary(TokenId id, std::span<const float> logits) {
  return id >= 0 && static_cast<std::size_t>(id) < logits.size();
}

/// Calls f(logit, count) once for every distinct token of `tokens`.
template <class F>
void for_distinct(std::span<float> logits, std::span<const TokenId> tokens,
                  std::span<std::int32_t> counts, const F& f) {
  for (const TokenId id : tokens)
    if (in_vocabulary(id, logits)) ++counts[static_cast<std::size_t>(id)];
  for (const TokenId id : tokens) {
    if (!in_vocabulary(id, logits)) continue;
    std::int32_t& count = counts[static_cast<std::size_t>(id)];
    if (count == 0) continue;  // met before
    f(logits[static_cast<std::size_t>(id)], count);
    count = 0;
  }
}

}  // namespace

void adjust_logits(std::span<float> logits, const SamplingParams& params,
                   std::span<const TokenId> history, Position num_generated,
                   std::span<std::int32_t> counts) {
  for (const LogitBias& entry : params.logit_bias)
    if (in_vocabulary(entry.token, logits))
      logits[static_cast<std::size_t>(entry.token)] += entry.bias;

  if (params.repetition_penalty != 1.0F)
    for_distinct(logits, history, counts, [&](float& logit, std::int32_t) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    });
  if (params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F) {
    const auto generated = static_cast<std::size_t>(std::max<Position>(num_generated, 0));
    for_distinct(logits, history.last(std::min(generated, history.size())), counts,
                 [&](float& logit, std::int32_t count) {
                   logit -= params.presence_penalty +
                            params.frequency_penalty * static_cast<float>(count);
                 });
  }
}

void ban_tokens(std::span<float> logits, std::span<const TokenId> banned) {
  for (const TokenId id : banned)
    if (in_vocabulary(id, logits))
      logits[static_cast<std::size_t>(id)] = -std::numeric_limits<float>::infinity();
}

}  // namespace sluice
