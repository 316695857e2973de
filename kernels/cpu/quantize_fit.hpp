// Finds the scale, or scale and offset, that represents a few numbers best in a few levels.
//
// For given levels q the best scale is a least-squares solution; the levels in turn follow from
// the scale by rounding. The search starts from several scales, since the error has many local
// minima, and takes the best (Lloyd 1982, least squares quantization, with even levels).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

/// Even levels from `lowest` to `highest`.
struct Levels {
  int lowest = 0;
  int highest = 0;
};

/// Nearest whole number, ties to even, for |value| < 2^22.
inline int nearest(float value) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: the sum has no fraction bits
  return static_cast<int>(value + kShift - kShift);
}

inline int clamped_level(float value, const Levels& levels) {
  // Also keeps `value` in the range of nearest().
  if (!(value > static_cast<float>(levels.lowest))) return levels.lowest;
  if (value > static_cast<float>(levels.highest)) return levels.highest;
  return nearest(value);
}

/// x ~ scale * q; scale may be negative. 0 when all values are 0.
float fit_scale(std::span<const float> x, const Levels& levels);

struct ScaleAndOffset {
  float scale = 0;  ///< at least 0
  float offset = 0;
};

/// x ~ scale * q + offset, q from 0 to `highest`. With `offset_at_most_0` the offset is not
/// positive.
ScaleAndOffset fit_scale_and_offset(std::span<const float> x, int highest, bool offset_at_most_0);

/// Whether every value is finite and small enough that nothing overflows.
bool can_be_scaled(std::span<const float> x);

}  // namespace sluice::kernels
