// Chooses the next token from one row of logits.
//
// The choice is a pure function of (logits, parameters, position, history): no state is carried
// from one call to the next, and all sums run in a fixed order.
//
// Worked example: logits {1, 3, 2}, temperature 0: token 1, logprob log(e^3 / (e^1 + e^3 + e^2))
// = -0.408, top_probability 0.665.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "engine/sampling/truncation.hpp"

namespace sluice {

/// Most alternatives that are reported with a token.
inline constexpr std::int32_t kMaxTopLogprobs = 20;

struct SampleRequest {
  /// One per token of the vocabulary. Bias and penalties are applied in place.
  std::span<float> logits;
  const SamplingParams* params = nullptr;
  Position position = 0;       ///< of the token to be drawn
  Position num_generated = 0;  ///< output tokens before it
  /// All tokens before it, the output last; may be empty unless params->needs_history().
  std::span<const TokenId> history;
};

/// A token or the reason why there is none.
struct SampleOutcome {
  SampledToken token;
  std::string error;  ///< one sentence; empty: `token` is set
};

/// Holds work space only; one thread uses it at a time.
class Sampler {
 public:
  /// Room for `vocab_size` logits, so that sampling itself needs no memory but for its result.
  explicit Sampler(std::size_t vocab_size);

  /// Bytes of work space for a vocabulary.
  static constexpr std::size_t workspace_bytes(std::size_t vocab_size) {
    return vocab_size * (sizeof(float) + sizeof(std::int32_t) + sizeof(Candidate));
  }

  /// Any input gives an outcome: logits that are not finite, biases without bounds and a ban of
  /// everything are errors; parameters out of range are taken as their nearest sensible value.
  SampleOutcome sample(const SampleRequest& request);

 private:
  std::vector<float> weights_;         ///< exp((logit - max) / temperature), [vocab]
  std::vector<Candidate> candidates_;  ///< [vocab]
  std::vector<std::int32_t> counts_;   ///< occurrences in the history, zero between calls
};

}  // namespace sluice
