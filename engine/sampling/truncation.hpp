// Which tokens stay in the draw: top-k, top-p and min-p on one row of logits.
//
// Each of the three keeps a beginning of the list of tokens ordered by logit (largest first, the
// lower id first among equals). The result is therefore one cut in that order, and the list
// itself is never sorted: only candidates near the top are looked at, and among those only the
// cut is searched, by repeated halving.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace sluice {

struct Candidate {
  float logit = 0.0F;
  TokenId id = 0;
};

/// The order of likelihood.
inline bool more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

/// `n` most likely tokens, most likely first. Tokens with a logit of minus infinity are left out.
/// `work` holds vocab-size room.
std::vector<Candidate> most_likely(std::span<const float> logits, std::size_t n,
                                   std::vector<Candidate>& work);

/// What stays: the tokens that are not behind `last` and weigh at least `min_weight`.
struct Truncation {
  Candidate last{-std::numeric_limits<float>::infinity(), std::numeric_limits<TokenId>::max()};
  float min_weight = 0.0F;

  /// A token of weight zero never stays.
  bool keeps(const Candidate& candidate, float weight) const {
    return weight > 0.0F && weight >= min_weight && !more_likely(last, candidate);
  }
};

/// `weights` are exp((logit - max) / temperature), the largest being 1. At least the most likely
/// token stays. `work` holds vocab-size room.
Truncation truncate(std::span<const float> logits, std::span<const float> weights,
                    const SamplingParams& params, std::vector<Candidate>& work);

}  // namespace sluice
