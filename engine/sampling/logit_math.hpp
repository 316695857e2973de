// Sums over a row of logits, in a fixed order.
#pragma once

#include <span>

namespace sluice {

struct RowExtent {
  float max = 0.0F;
  bool finite = true;  ///< no NaN, no infinity
};

/// Largest logit, and whether all are finite numbers.
RowExtent row_extent(std::span<const float> logits);

/// weights[i] = exp((logits[i] - max) * inverse_temperature). Relative error below 2e-7; 0 for
/// an exponent below -87, also for minus infinity. Every (logit - max) must be at most 0.
/// Returns the sum.
double exponentials(std::span<const float> logits, float max, float inverse_temperature,
                    std::span<float> weights);

/// Sum in double, in an order that depends on the length alone.
double ordered_sum(std::span<const float> values);

}  // namespace sluice
