// Finds the scale, or scale and offset, that represents a few numbers best in a few levels.
//
// For given levels q the best scale is a least-squares solution; the levels in turn follow from
// the scale by rounding. The search starts from several scales, since the error has many local
// minima, and takes the best (Lloyd 1982, least squares quantization, with even levels).
//
// Sums run in eight lanes, which the compiler turns into vector instructions; their order is
// fixed, so that results are the same on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::kernels {

/// Even levels from `lowest` to `highest`.
struct Levels {
  int lowest = 0;
  int highest = 0;
};

/// The nearest level, ties to even, as a float. Not-a-number becomes the lowest.
inline float nearest_level(float value, float lowest, float highest) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23: the sum has no fraction bits
  value = value > lowest ? value : lowest;
  value = value < highest ? value : highest;
  return value + kShift - kShift;
}

inline int clamped_level(float value, const Levels& levels) {
  return static_cast<int>(
      nearest_level(value, static_cast<float>(levels.lowest), static_cast<float>(levels.highest)));
}

/// Groups have a multiple of this many elements.
constexpr std::size_t kLanes = 8;
using Lanes = std::array<float, kLanes>;

inline float sum_of(const Lanes& lanes) {
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
         ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/// Calls body(i, lane) for every element in lanes.
template <class Body>
inline void for_lanes(std::size_t n, Body body) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) body(i + lane, lane);
  }
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
