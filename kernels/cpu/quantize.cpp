// The plain types and those in blocks of 32. Layouts: ggml, ggml-common.h.
#include "kernels/cpu/quantize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/cpu/quantize_bytes.hpp"
#include "kernels/cpu/quantize_fit.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t kBlock = 32;
constexpr std::size_t kHalf = kBlock / 2;

using BlockLevels = std::array<int, kBlock>;

/// Runs `quantize_block(x, dst)` for every block, or writes zeros where it can't work.
template <class QuantizeBlock>
void for_each_block(const float* src, std::byte* dst, std::size_t n, std::size_t block_bytes,
                    QuantizeBlock quantize_block) {
  for (; n != 0; n -= kBlock, src += kBlock, dst += block_bytes) {
    const std::span<const float> x(src, kBlock);
    if (can_be_scaled(x)) {
      quantize_block(x, dst);
    } else {
      std::memset(dst, 0, block_bytes);
    }
  }
}

BlockLevels levels_of(std::span<const float> x, float d, float m, const Levels& levels) {
  const float inverse = inverse_of(d);
  BlockLevels q{};
  for (std::size_t j = 0; j < kBlock; ++j) q[j] = clamped_level((x[j] - m) * inverse, levels);
  return q;
}

/// The first half of the elements are low nibbles, the second half high ones.
void store_nibbles(std::byte* dst, const BlockLevels& q) {
  for (std::size_t j = 0; j < kHalf; ++j) {
    store_byte(dst, j, (q[j] & 15) | (q[j + kHalf] & 15) << 4);
  }
}

std::uint32_t fifth_bits(const BlockLevels& q) {
  std::uint32_t bits = 0;
  for (std::size_t j = 0; j < kBlock; ++j) {
    bits |= ((static_cast<std::uint32_t>(q[j]) >> 4) & 1U) << j;
  }
  return bits;
}

/// Levels around zero, stored from 0 on.
BlockLevels symmetric_block(std::span<const float> x, std::byte* dst, const Levels& levels) {
  const float d = store_half(dst, fit_scale(x, levels));
  BlockLevels q = levels_of(x, d, 0, levels);
  for (int& level : q) level -= levels.lowest;
  return q;
}

BlockLevels offset_block(std::span<const float> x, std::byte* dst, int highest) {
  const ScaleAndOffset fit = fit_scale_and_offset(x, highest, false);
  const float d = store_half(dst, fit.scale);
  const float m = store_half(dst + 2, fit.offset);
  return levels_of(x, d, m, {0, highest});
}

}  // namespace

void quantize_f32(const float* src, std::byte* dst, std::size_t n) {
  if (n != 0) std::memcpy(dst, src, n * sizeof(float));
}

void quantize_f16(const float* src, std::byte* dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) store_u16(dst + 2 * i, float_to_half(src[i]));
}

void quantize_bf16(const float* src, std::byte* dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) store_u16(dst + 2 * i, float_to_bfloat16(src[i]));
}

void quantize_q8_0(const float* src, std::byte* dst, std::size_t n) {
  for_each_block(src, dst, n, 34, [](std::span<const float> x, std::byte* block) {
    // 255 levels: the plain scale is within a few thousandths of the best.
    float largest = 0;
    for (const float value : x) largest = std::max(largest, std::abs(value));
    const float d = store_half(block, largest / 127.0F);
    const BlockLevels q = levels_of(x, d, 0, {-127, 127});
    for (std::size_t j = 0; j < kBlock; ++j) store_byte(block, 2 + j, q[j]);
  });
}

void quantize_q4_0(const float* src, std::byte* dst, std::size_t n) {
  for_each_block(src, dst, n, 18, [](std::span<const float> x, std::byte* block) {
    store_nibbles(block + 2, symmetric_block(x, block, {-8, 7}));
  });
}

void quantize_q5_0(const float* src, std::byte* dst, std::size_t n) {
  for_each_block(src, dst, n, 22, [](std::span<const float> x, std::byte* block) {
    const BlockLevels q = symmetric_block(x, block, {-16, 15});
    store_u32(block + 2, fifth_bits(q));
    store_nibbles(block + 6, q);
  });
}

void quantize_q4_1(const float* src, std::byte* dst, std::size_t n) {
  for_each_block(src, dst, n, 20, [](std::span<const float> x, std::byte* block) {
    store_nibbles(block + 4, offset_block(x, block, 15));
  });
}

void quantize_q5_1(const float* src, std::byte* dst, std::size_t n) {
  for_each_block(src, dst, n, 24, [](std::span<const float> x, std::byte* block) {
    const BlockLevels q = offset_block(x, block, 31);
    store_u32(block + 4, fifth_bits(q));
    store_nibbles(block + 8, q);
  });
}

}  // namespace sluice::kernels
