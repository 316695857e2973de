// Turns stored elements into floats: one function for every element type of a weight file.
//
// All functions take `n` elements, a multiple of the type's block size, from `src` (any
// alignment, little-endian) and write n floats to `dst`. They are plain scalar code: the one
// path that covers every type, and the yardstick that faster kernels are tested against.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// IEEE 754 binary16 to binary32; exact for every bit pattern (subnormals, infinities, NaN).
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1FU;
  const std::uint32_t mantissa = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

/// bfloat16 is the upper half of a binary32.
inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

void dequantize_f32(const std::byte* src, float* dst, std::size_t n);
void dequantize_f16(const std::byte* src, float* dst, std::size_t n);
void dequantize_bf16(const std::byte* src, float* dst, std::size_t n);
/// Blocks of 32: f16 scale, then 32 int8.
void dequantize_q8_0(const std::byte* src, float* dst, std::size_t n);

}  // namespace sluice::kernels
