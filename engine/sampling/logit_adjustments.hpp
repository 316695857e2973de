// Changes to a row of logits before a token is chosen: bias, penalties, bans.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace sluice {

/// Adds the biases, then applies the penalties: repetition to every token of `history`, presence
/// and frequency to the tokens of its last `num_generated` entries. Ids outside the vocabulary
/// are ignored. `counts` has one zero for each token of the vocabulary, before and after.
void adjust_logits(std::span<float> logits, const SamplingParams& params,
                   std::span<const TokenId> history, Position num_generated,
                   std::span<std::int32_t> counts);

/// Sets the logits of tokens that must not be drawn yet to minus infinity.
void ban_tokens(std::span<float> logits, std::span<const TokenId> banned);

}  // namespace sluice
