// Rounds a row of activations to 8 bits; written once, compiled for every instruction set.
//
// Block j gets the smallest power of two 2^k for which its largest magnitude is at most
// 127 f 2^k. With f = m 2^c, all blocks share the significand m; it is chosen from eight, so that
// the squares of the rounding steps add up to the least. (Blocks that each had a scale of their
// own would be rounded a little better, at the price of one more multiplication for every block
// of every product.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kSignificands = 8;
/// 2^(i/8) and its reciprocal.
inline constexpr float kSignificand[kSignificands] = {1.0F,        1.09050773F, 1.18920712F,
                                                      1.29683955F, 1.41421356F, 1.54221083F,
                                                      1.68179283F, 1.83400809F};
inline constexpr std::uint32_t kInfinityBits = 0x7F800000;
/// Rows whose largest magnitude is below 2^-80 count as zero.
inline constexpr std::uint32_t kSmallestBits = (127U - 80U) << 23;

template <class S>
std::uint32_t bits_of_float(float x) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}

template <class S>
float float_of_bits(std::uint32_t bits) {
  float x = 0;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

/// The biased exponent of the smallest power of two that is at least magnitude x factor.
template <class S>
std::int32_t exponent_above(std::uint32_t magnitude, float factor) {
  const float limit = float_of_bits<S>(magnitude) * factor;
  return static_cast<std::int32_t>((bits_of_float<S>(limit) + 0x7FFFFFU) >> 23);
}

/// Index of the significand that rounds best; magnitudes in blocks[j].exponent.
template <class S>
std::size_t best_significand(const QuantizedBlock* blocks, std::size_t count,
                             std::uint32_t largest) {
  constexpr std::int32_t kSeen = 8;  // smaller blocks make no difference
  constexpr std::size_t kTogether = 64;
  float factor[kSignificands];
  std::int32_t top[kSignificands];
  std::uint32_t squares[kSignificands];  // of the steps, in units of (2^(top - kSeen))^2
  for (std::size_t i = 0; i < kSignificands; ++i) {
    factor[i] = 1.0F / (127.0F * kSignificand[i]);
    top[i] = exponent_above<S>(largest, factor[i]);
    squares[i] = 0;
  }
  for (std::size_t first = 0; first < count; first += kTogether) {
    const std::size_t n = count - first < kTogether ? count - first : kTogether;
    std::uint32_t magnitude[kTogether];
    for (std::size_t j = 0; j < n; ++j)
      magnitude[j] = static_cast<std::uint32_t>(blocks[first + j].exponent);
    for (std::size_t i = 0; i < kSignificands; ++i) {
      std::uint32_t sum = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const std::int32_t below = top[i] - exponent_above<S>(magnitude[j], factor[i]);
        sum += below > kSeen ? 0U : 1U << 2 * (kSeen - below);
      }
      squares[i] += sum;
    }
  }
  std::size_t best = 0;
  double least = 0.0;
  for (std::size_t i = 0; i < kSignificands; ++i) {
    const float power = float_of_bits<S>(static_cast<std::uint32_t>(top[i]) << 23);
    const double step = static_cast<double>(kSignificand[i]) * static_cast<double>(power);
    const double error = static_cast<double>(squares[i]) * step * step;
    if (i == 0 || error < least) {
      least = error;
      best = i;
    }
  }
  return best;
}

/// q = x times `inverse`, rounded to the nearest, ties to even; |x inverse| is at most 127.
template <class S>
void quantize_block(const float* x, float inverse, std::int32_t k, QuantizedBlock& block) {
  const HalfSums sums = S::round_block(x, inverse, block.q);
  const std::int32_t all = sums.first + sums.second;
  block.correction = -128 * all;
  block.half_correction = -128 * sums.first;
  block.exponent = k * (1 << 23);
  block.sum = static_cast<float>(all) * float_of_bits<S>(static_cast<std::uint32_t>(k + 127) << 23);
}

template <class S>
void quantize_row(const float* x, std::size_t cols, std::byte* out) {
  const std::size_t count = cols / kBlockCols;
  auto* blocks = reinterpret_cast<QuantizedBlock*>(out + kRowHeaderBytes);
  std::uint32_t largest = 0;
  for (std::size_t j = 0; j < count; ++j) {
    const std::uint32_t in_block = S::largest_magnitude(x + j * kBlockCols);
    blocks[j].exponent = static_cast<std::int32_t>(in_block);
    largest = largest > in_block ? largest : in_block;
  }

  const bool finite = largest < kInfinityBits;
  if (!finite || largest < kSmallestBits) {
    const float factor = finite ? 0.0F : __builtin_nanf("");
    __builtin_memset(blocks, 0, count * sizeof(QuantizedBlock));
    __builtin_memcpy(out, &factor, sizeof(factor));
    return;
  }
  const float significand = kSignificand[best_significand<S>(blocks, count, largest)];
  const float limit = 1.0F / (127.0F * significand);
  const float inverse = 1.0F / significand;
  const std::int32_t lowest = exponent_above<S>(largest, limit) - kExponentSpan;  // of k = 0
  for (std::size_t j = 0; j < count; ++j) {
    const std::int32_t above =
        exponent_above<S>(static_cast<std::uint32_t>(blocks[j].exponent), limit) - lowest;
    const std::int32_t k = above < 0 ? 0 : above;
    const float power = float_of_bits<S>(static_cast<std::uint32_t>(254 - (lowest + k)) << 23);
    quantize_block<S>(x + j * kBlockCols, inverse * power, k, blocks[j]);
  }
  const float factor = significand * float_of_bits<S>(static_cast<std::uint32_t>(lowest) << 23);
  __builtin_memcpy(out, &factor, sizeof(factor));
}

}  // namespace sluice::kernels
