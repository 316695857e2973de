// The frequencies of rotary position embedding, with every way of stretching the context.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model_config.hpp"

namespace sluice {

struct RopeTable {
  std::vector<double> frequencies;  ///< [rope_dims / 2], radians per position
  double magnitude = 1.0;           ///< of cosines and sines
};

/// Pair i of `dims` elements turns by base^(-2 i / dims) a position, divided by factors[i] where
/// there are factors, then scaled. Entries may come out infinite or not a number when the settings
/// make no sense; the caller checks.
///
/// Worked example: dims 4, base 10000, linear factor 4: frequencies 0.25 and 0.0025.
RopeTable make_rope_table(const RopeConfig& rope, std::int32_t dims,
                          std::span<const float> factors);

}  // namespace sluice
