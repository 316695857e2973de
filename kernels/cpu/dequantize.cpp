#include "kernels/cpu/dequantize.hpp"

#include <cstring>

#include "kernels/cpu/block_bytes.hpp"

namespace sluice::kernels {

namespace {
constexpr std::size_t kBlock = 32;
constexpr std::size_t kHalf = kBlock / 2;
}  // namespace

void dequantize_f32(const std::byte* src, float* dst, std::size_t n) {
  if (n != 0) std::memcpy(dst, src, n * sizeof(float));
}

void dequantize_f16(const std::byte* src, float* dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dst[i] = load_half(src + 2 * i);
}

void dequantize_bf16(const std::byte* src, float* dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dst[i] = bfloat16_to_float(load_u16(src + 2 * i));
}

void dequantize_q8_0(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 2 + kBlock) {
    const float d = load_half(src);
    for (std::size_t j = 0; j < kBlock; ++j) {
      dst[j] = d * static_cast<float>(signed_byte_at(src, 2 + j));
    }
  }
}

void dequantize_q4_0(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 2 + kHalf) {
    const float d = load_half(src);
    for (std::size_t j = 0; j < kHalf; ++j) {
      const int q = byte_at(src, 2 + j);
      dst[j] = static_cast<float>((q & 15) - 8) * d;
      dst[j + kHalf] = static_cast<float>((q >> 4) - 8) * d;
    }
  }
}

void dequantize_q4_1(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 4 + kHalf) {
    const float d = load_half(src);
    const float m = load_half(src + 2);
    for (std::size_t j = 0; j < kHalf; ++j) {
      const int q = byte_at(src, 4 + j);
      dst[j] = static_cast<float>(q & 15) * d + m;
      dst[j + kHalf] = static_cast<float>(q >> 4) * d + m;
    }
  }
}

void dequantize_q5_0(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 6 + kHalf) {
    const float d = load_half(src);
    const std::uint32_t fifth = load_u32(src + 2);
    for (std::size_t j = 0; j < kHalf; ++j) {
      const int q = byte_at(src, 6 + j);
      const int low = (q & 15) | static_cast<int>((fifth >> j) & 1U) << 4;
      const int high = (q >> 4) | static_cast<int>((fifth >> (j + kHalf)) & 1U) << 4;
      dst[j] = static_cast<float>(low - 16) * d;
      dst[j + kHalf] = static_cast<float>(high - 16) * d;
    }
  }
}

void dequantize_q5_1(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 8 + kHalf) {
    const float d = load_half(src);
    const float m = load_half(src + 2);
    const std::uint32_t fifth = load_u32(src + 4);
    for (std::size_t j = 0; j < kHalf; ++j) {
      const int q = byte_at(src, 8 + j);
      const int low = (q & 15) | static_cast<int>((fifth >> j) & 1U) << 4;
      const int high = (q >> 4) | static_cast<int>((fifth >> (j + kHalf)) & 1U) << 4;
      dst[j] = static_cast<float>(low) * d + m;
      dst[j + kHalf] = static_cast<float>(high) * d + m;
    }
  }
}

}  // namespace sluice::kernels
