// Numbers that sampling needs, bit for bit those of engine/sampling: the exponential, the random
// draw, and an order of floats that integers keep.
#pragma once

#include "kernels/cuda/device.hpp"

namespace sluice::kernels::cuda {

/// e^x for x <= 0, as exp_nonpositive() in engine/sampling/logit_math.cpp: a Taylor series to
/// r^7 / 7! after taking out whole multiples of ln 2; 0 below -87.
__device__ inline float exp_nonpositive(float x) {
  const float clamped = x < -87.0F ? -87.0F : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves whole numbers
  const float n = sum(sum(multiply(clamped, 1.44269504F), kRound), -kRound);
  const float r = sum(sum(clamped, -multiply(n, 0.693359375F)), multiply(n, 2.12194440e-4F));
  float p = 1.0F / 5040.0F;
  p = sum(multiply(p, r), 1.0F / 720.0F);
  p = sum(multiply(p, r), 1.0F / 120.0F);
  p = sum(multiply(p, r), 1.0F / 24.0F);
  p = sum(multiply(p, r), 1.0F / 6.0F);
  p = sum(multiply(p, r), 0.5F);
  p = sum(multiply(p, r), 1.0F);
  p = sum(multiply(p, r), 1.0F);
  const int exponent = (static_cast<int>(n) + 127) * (1 << 23);
  const float result = multiply(p, __int_as_float(exponent));
  return x < -87.0F ? 0.0F : result;
}

/// A weight, at most 1, as a whole multiple of 2^-44: sums of up to 2^18 of them are exact, in any
/// order.
using Mass = unsigned long long;
inline constexpr int kMassBits = 44;
__device__ inline Mass mass_of(float weight) {
  return static_cast<Mass>(static_cast<double>(weight) * static_cast<double>(1ULL << kMassBits) +
                           0.5);
}

/// Larger floats have larger keys; -0 and 0 have the same.
__device__ inline unsigned order_key(float x) {
  const unsigned bits = __float_as_uint(x == 0.0F ? 0.0F : x);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// The first 64 bits of Philox4x32-10 of (seed; position, 0, 0, 0), see engine/sampling/philox.hpp.
__device__ inline unsigned long long philox_bits(std::uint64_t seed, std::uint32_t position) {
  std::uint32_t c[4] = {position, 0, 0, 0};
  std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[2];
    const std::uint32_t next[4] = {
        static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
        static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return static_cast<unsigned long long>(c[1]) << 32 | c[0];
}

/// floor(u * total) for the uniform draw u = (bits >> 11) / 2^53 of (seed, position).
__device__ inline Mass drawn_mass(std::uint64_t seed, std::uint32_t position, Mass total) {
  const unsigned long long u = philox_bits(seed, position) >> 11 << 11;  // as parts of 2^64
  return __umul64hi(u, total);
}

}  // namespace sluice::kernels::cuda
