// The super-block types Q2_K to Q6_K. Layouts: ggml, ggml-common.h (block_q2_K and so on).
#include <cstring>

#include "kernels/cpu/quantize.hpp"
#include "kernels/cpu/quantize_super.hpp"

namespace sluice::kernels {

void SignedBlock::fit(std::span<const float, kSuperBlock> x) {
  std::array<float, kGroups> fits{};
  float extreme = 0;
  for (std::size_t g = 0; g < kGroups; ++g) {
    fits[g] = fit_scale(x.subspan(g * kGroup, kGroup), levels);
    if (std::abs(fits[g]) > std::abs(extreme)) extreme = fits[g];
  }
  // The largest scale takes the end that has one level more.
  d = half_to_float(float_to_half(extreme / static_cast<float>(scales.lowest)));
  for (std::size_t g = 0; g < kGroups; ++g) {
    scale[g] = clamped_level(fits[g] * inverse_of(d), scales);
  }
  for (int round = 0; round < kSuperRounds; ++round) {
    improve_common(x);
    for (std::size_t g = 0; g < kGroups; ++g)
      improve_group(Group(x.data() + g * kGroup, kGroup), g);
  }
}

std::array<int, kSuperBlock> SignedBlock::quantized(std::span<const float, kSuperBlock> x) const {
  std::array<int, kSuperBlock> q{};
  for (std::size_t g = 0; g < kGroups; ++g) {
    const float inverse = inverse_of(d * static_cast<float>(scale[g]));
    for (std::size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      q[i] = static_cast<int>(level(x[i], inverse));
    }
  }
  return q;
}

void SignedBlock::improve_common(std::span<const float, kSuperBlock> x) {
  float aa = 0;
  float ax = 0;
  for (std::size_t g = 0; g < kGroups; ++g) {
    const auto s = static_cast<float>(scale[g]);
    const float inverse = inverse_of(d * s);
    Lanes qq{};
    Lanes xq{};
    for_lanes(kGroup, [&, first = g * kGroup](std::size_t i, std::size_t lane) {
      const float value = x[first + i];
      const float q = level(value, inverse);
      qq[lane] += q * q;
      xq[lane] += value * q;
    });
    aa += s * s * sum_of(qq);
    ax += s * sum_of(xq);
  }
  if (aa > 0 && std::isfinite(ax / aa)) d = half_to_float(float_to_half(ax / aa));
}

float SignedBlock::error(Group x, std::size_t g) const {
  const float step = d * static_cast<float>(scale[g]);
  const float inverse = inverse_of(step);
  Lanes sum{};
  for_lanes(kGroup, [&](std::size_t i, std::size_t lane) {
    const float difference = step * level(x[i], inverse) - x[i];
    sum[lane] += difference * difference;
  });
  return sum_of(sum);
}

void SignedBlock::improve_group(Group x, std::size_t g) {
  const int before = scale[g];
  int chosen = before;
  float best = error(x, g);
  for (const int s : {before - 1, before + 1}) {
    if (s < scales.lowest || s > scales.highest) continue;
    scale[g] = s;
    const float e = error(x, g);
    if (e < best) {
      best = e;
      chosen = s;
    }
  }
  scale[g] = chosen;
}

namespace {

using Super = std::span<const float, kSuperBlock>;
using SuperLevels = std::array<int, kSuperBlock>;

template <class QuantizeBlock>
void for_each_super_block(const float* src, std::byte* dst, std::size_t n, std::size_t block_bytes,
                          QuantizeBlock quantize_block) {
  for (; n != 0; n -= kSuperBlock, src += kSuperBlock, dst += block_bytes) {
    const Super x(src, kSuperBlock);
    std::memset(dst, 0, block_bytes);
    if (can_be_scaled(x)) quantize_block(x, dst);
  }
}

void or_byte(std::byte* dst, std::size_t i, int value) {
  dst[i] |= static_cast<std::byte>(static_cast<std::uint8_t>(value));
}

/// Eight pairs of 6-bit numbers in 12 bytes, as in Q4_K and Q5_K.
void store_scales_and_minima(std::byte* packed, const std::array<int, 8>& scale,
                             const std::array<int, 8>& min) {
  for (std::size_t g = 0; g < 4; ++g) {
    store_byte(packed, g, scale[g] | (scale[g + 4] >> 4) << 6);
    store_byte(packed, g + 4, min[g] | (min[g + 4] >> 4) << 6);
    store_byte(packed, g + 8, (scale[g + 4] & 15) | (min[g + 4] & 15) << 4);
  }
}

/// Each 32 bytes hold two groups of 32, low nibbles first.
void store_group_nibbles(std::byte* q, const SuperLevels& levels) {
  for (std::size_t i = 0; i < kSuperBlock; ++i) {
    or_byte(q, 32 * (i / 64) + i % 32, (levels[i] & 15) << (4 * (i / 32 % 2)));
  }
}

/// 2 bits each: 128 elements in 32 bytes, in four layers of 32.
void store_pairs(std::byte* q, const SuperLevels& levels) {
  for (std::size_t i = 0; i < kSuperBlock; ++i) {
    or_byte(q, 32 * (i / 128) + i % 32, (levels[i] & 3) << (2 * (i / 32 % 4)));
  }
}

MinimumBlock<32> fit_q4_or_q5(Super x, std::byte* block, int max_level) {
  MinimumBlock<32> fit{.max_level = max_level, .max_scale = 63};
  fit.fit(x);
  store_half(block, fit.d);
  store_half(block + 2, fit.dmin);
  store_scales_and_minima(block + 4, fit.scale, fit.min);
  return fit;
}

}  // namespace

// 16 bytes of scale (low nibble) and minimum (high nibble), 64 bytes of 2-bit q, d, dmin.
void quantize_q2_k(const float* src, std::byte* dst, std::size_t n) {
  for_each_super_block(src, dst, n, 84, [](Super x, std::byte* block) {
    MinimumBlock<16> fit{.max_level = 3, .max_scale = 15};
    fit.fit(x);
    for (std::size_t g = 0; g < 16; ++g) store_byte(block, g, fit.scale[g] | fit.min[g] << 4);
    store_pairs(block + 16, fit.levels(x));
    store_half(block + 80, fit.d);
    store_half(block + 82, fit.dmin);
  });
}

// 32 bytes of third bits (0 means minus 4), 64 bytes of lower two bits, 12 bytes of scales, d.
void quantize_q3_k(const float* src, std::byte* dst, std::size_t n) {
  for_each_super_block(src, dst, n, 110, [](Super x, std::byte* block) {
    SignedBlock fit{.levels = {-4, 3}, .scales = {-32, 31}};
    fit.fit(x);
    SuperLevels q = fit.quantized(x);
    for (int& level : q) level += 4;
    for (std::size_t i = 0; i < kSuperBlock; ++i) {
      or_byte(block, i % 32, (q[i] >> 2) << (i / 32));
    }
    store_pairs(block + 32, q);
    std::byte* scales = block + 96;
    for (std::size_t g = 0; g < 16; ++g) {
      const int stored = fit.scale[g] + 32;
      or_byte(scales, g % 8, (stored & 15) << (4 * (g / 8)));
      or_byte(scales, 8 + g % 4, (stored >> 4) << (2 * (g / 4)));
    }
    store_half(block + 108, fit.d);
  });
}

// d, dmin, 12 bytes of scales and minima, 128 bytes of nibbles.
void quantize_q4_k(const float* src, std::byte* dst, std::size_t n) {
  for_each_super_block(src, dst, n, 144, [](Super x, std::byte* block) {
    store_group_nibbles(block + 16, fit_q4_or_q5(x, block, 15).levels(x));
  });
}

// As Q4_K, with 32 bytes of fifth bits (bit g for group g) before the nibbles.
void quantize_q5_k(const float* src, std::byte* dst, std::size_t n) {
  for_each_super_block(src, dst, n, 176, [](Super x, std::byte* block) {
    const SuperLevels q = fit_q4_or_q5(x, block, 31).levels(x);
    for (std::size_t i = 0; i < kSuperBlock; ++i) {
      or_byte(block + 16, i % 32, (q[i] >> 4) << (i / 32));
    }
    store_group_nibbles(block + 48, q);
  });
}

// 128 bytes of lower nibbles, 64 bytes of upper two bits, 16 int8 scales, d; q + 32. Each half of
// 128 elements has four runs of 32: low nibbles of its first and second 32 bytes, then high ones.
void quantize_q6_k(const float* src, std::byte* dst, std::size_t n) {
  for_each_super_block(src, dst, n, 210, [](Super x, std::byte* block) {
    SignedBlock fit{.levels = {-32, 31}, .scales = {-128, 127}};
    fit.fit(x);
    const SuperLevels q = fit.quantized(x);
    for (std::size_t i = 0; i < kSuperBlock; ++i) {
      const std::size_t run = i / 32;
      const int stored = q[i] + 32;
      or_byte(block + 64 * (run / 4) + 32 * (run % 2), i % 32,
              (stored & 15) << (4 * (run % 4 / 2)));
      or_byte(block + 128 + 32 * (run / 4), i % 32, (stored >> 4) << (2 * (run % 4)));
    }
    for (std::size_t g = 0; g < 16; ++g) store_byte(block + 192, g, fit.scale[g]);
    store_half(block + 208, fit.d);
  });
}

}  // namespace sluice::kernels
