// Turns floats into stored elements: the inverse of dequantize.hpp, to the nearest that the type
// can hold.
//
// All functions take `n` floats, a multiple of the type's block size, from `src` and write whole
// blocks to `dst` (any alignment). Scales are searched for the least squared error of each block,
// so the result depends on the block's values alone. A block with a value that is not finite
// becomes zeros in the block types; the plain types keep it.
//
// Worked example: quantize_q8_0 of 32 values of which the largest is 12.7 stores d = 0.1 (as f16)
// and q = round(x / d).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// Nearest binary16, ties to even; beyond the largest it becomes infinite. NaN stays NaN.
inline std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 leaves the value in units of 2^-24 in the low bits, rounded.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3F000000U));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
}

/// Nearest bfloat16, ties to even. NaN stays NaN.
inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

void quantize_f32(const float* src, std::byte* dst, std::size_t n);
void quantize_f16(const float* src, std::byte* dst, std::size_t n);
void quantize_bf16(const float* src, std::byte* dst, std::size_t n);

// Blocks of 32.
void quantize_q8_0(const float* src, std::byte* dst, std::size_t n);
void quantize_q4_0(const float* src, std::byte* dst, std::size_t n);
void quantize_q4_1(const float* src, std::byte* dst, std::size_t n);
void quantize_q5_0(const float* src, std::byte* dst, std::size_t n);
void quantize_q5_1(const float* src, std::byte* dst, std::size_t n);
void quantize_iq4_nl(const float* src, std::byte* dst, std::size_t n);

// Super-blocks of 256.
void quantize_q2_k(const float* src, std::byte* dst, std::size_t n);
void quantize_q3_k(const float* src, std::byte* dst, std::size_t n);
void quantize_q4_k(const float* src, std::byte* dst, std::size_t n);
void quantize_q5_k(const float* src, std::byte* dst, std::size_t n);
void quantize_q6_k(const float* src, std::byte* dst, std::size_t n);

}  // namespace sluice::kernels
