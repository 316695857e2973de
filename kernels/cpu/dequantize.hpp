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

// Blocks of 32. d and m are f16: value = d * q, or d * q + m for the _1 types. The first half of
// the elements are low nibbles, the second half high ones; 5-bit types keep the fifth bits apart.
void dequantize_q8_0(const std::byte* src, float* dst, std::size_t n);  // d, 32 int8
void dequantize_q4_0(const std::byte* src, float* dst, std::size_t n);  // d, 16 bytes; q - 8
void dequantize_q4_1(const std::byte* src, float* dst, std::size_t n);  // d, m, 16 bytes
void dequantize_q5_0(const std::byte* src, float* dst, std::size_t n);  // d, u32, 16 bytes; q - 16
void dequantize_q5_1(const std::byte* src, float* dst, std::size_t n);  // d, m, u32, 16 bytes

// Super-blocks of 256 with small scales (and minima) for every 16 or 32 elements, themselves
// scaled by f16 numbers: value = d * scale * q - dmin * min.
void dequantize_q2_k(const std::byte* src, float* dst, std::size_t n);
void dequantize_q3_k(const std::byte* src, float* dst, std::size_t n);
void dequantize_q4_k(const std::byte* src, float* dst, std::size_t n);
void dequantize_q5_k(const std::byte* src, float* dst, std::size_t n);
void dequantize_q6_k(const std::byte* src, float* dst, std::size_t n);

// Four bits that choose from 16 unevenly spaced values: blocks of 32, super-blocks of 256.
void dequantize_iq4_nl(const std::byte* src, float* dst, std::size_t n);
void dequantize_iq4_xs(const std::byte* src, float* dst, std::size_t n);

// Four-bit floats (sign, 2 bits of exponent, 1 of mantissa) with a power of two for every 32 of
// them (OCP Microscaling Formats 1.0).
void dequantize_mxfp4(const std::byte* src, float* dst, std::size_t n);

}  // namespace sluice::kernels
