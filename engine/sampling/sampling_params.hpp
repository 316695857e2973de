// How the next token is chosen.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

struct LogitBias {
  TokenId token = 0;
  float bias = 0.0F;
};

/// Applied in this order: logit bias, repetition / presence / frequency penalties, bans before
/// the minimum length, temperature, top-k, top-p, min-p, draw.
struct SamplingParams {
  float temperature = 0.7F;         ///< 0 is greedy: the largest logit, the lowest id on a tie
  std::int32_t top_k = 0;           ///< keep the k most likely; 0 keeps all
  float top_p = 0.95F;              ///< keep the smallest set with this much probability; 1 is off
  float min_p = 0.0F;               ///< drop tokens below min_p times the top probability; 0 is off
  float repetition_penalty = 1.0F;  ///< divides (multiplies) positive (negative) logits of tokens
                                    ///< in prompt or output; 1 is off
  float presence_penalty = 0.0F;    ///< subtracted once from tokens already in the output
  float frequency_penalty = 0.0F;   ///< subtracted per occurrence in the output
  std::uint64_t seed = 0;           ///< the draw at position p uses only (seed, p)
  std::int32_t num_top_logprobs = 0;  ///< alternatives reported with each token, at most 20
  std::vector<LogitBias> logit_bias;
  std::int32_t min_new_tokens = 0;         ///< until then the tokens in `banned_before_min` cannot
                                           ///< be drawn
  std::vector<TokenId> banned_before_min;  ///< usually the end tokens

  bool needs_history() const {
    return repetition_penalty != 1.0F || presence_penalty != 0.0F || frequency_penalty != 0.0F;
  }
  bool operator==(const SamplingParams&) const = default;
};

inline bool operator==(const LogitBias& a, const LogitBias& b) {
  return a.token == b.token && a.bias == b.bias;
}

/// An alternative at one position. `logprob` is the natural logarithm of the probability before
/// temperature and truncation, after bias and penalties.
struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0F;
};

/// One chosen token with what the sampler knew about it.
struct SampledToken {
  TokenId id = 0;
  float logprob = 0.0F;           ///< of the chosen token, as in TokenLogprob
  float top_probability = 0.0F;   ///< largest probability of the step, for the low-confidence rule
  std::vector<TokenLogprob> top;  ///< num_top_logprobs entries, most likely first
};

}  // namespace sluice
