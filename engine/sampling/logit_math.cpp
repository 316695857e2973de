#include "engine/sampling/logit_math.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sluice {
namespace {

constexpr std::size_t kLanes = 8;  // independent sums, so that the compiler can use vectors

/// e^x for x <= 0: x = n ln 2 + r, e^r by its Taylor series to r^7 / 7! (remainder below 6e-9).
/// Plain arithmetic without branches: the loop around it becomes vector code.
inline float exp_nonpositive(float x) {
  const float clamped = x < -87.0F ? -87.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves whole numbers
  const float n = (clamped * 1.44269504F + kRound) - kRound;
  const float r = (clamped - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const std::int32_t exponent = (static_cast<std::int32_t>(n) + 127) << 23;
  const float result = p * std::bit_cast<float>(exponent);
  return x < -87.0F ? 0.0F : result;
}

}  // namespace

RowExtent row_extent(std::span<const float> logits) {
  std::array<float, kLanes> largest;
  std::array<float, kLanes> zeros{};  // 0 * x is not a number for everything that is not finite
  largest.fill(-std::numeric_limits<float>::infinity());
  const auto take = [&](std::size_t lane, float x) {
    largest[lane] = x > largest[lane] ? x : largest[lane];
    zeros[lane] += 0.0F * x;
  };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, logits[i + lane]);
  for (; i < logits.size(); ++i) take(0, logits[i]);
  RowExtent extent{largest[0], true};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    extent.max = largest[lane] > extent.max ? largest[lane] : extent.max;
    extent.finite = extent.finite && zeros[lane] == 0.0F;
  }
  return extent;
}

double exponentials(std::span<const float> logits, float max, float inverse_temperature,
                    std::span<float> weights) {
  for (std::size_t i = 0; i < logits.size(); ++i)
    weights[i] = exp_nonpositive((logits[i] - max) * inverse_temperature);
  return ordered_sum(weights.first(logits.size()));
}

double ordered_sum(std::span<const float> values) {
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sums[lane] += static_cast<double>(values[i + lane]);
  for (; i < values.size(); ++i) sums[0] += static_cast<double>(values[i]);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

}  // namespace sluice
