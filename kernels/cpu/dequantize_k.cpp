// The super-block types Q2_K to Q6_K. Layouts: ggml, ggml-common.h (block_q2_K and so on).
#include "kernels/cpu/block_bytes.hpp"
#include "kernels/cpu/dequantize.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t kSuper = 256;

/// Scale and minimum of one 32-element group in Q4_K and Q5_K: eight pairs of 6-bit numbers in
/// 12 bytes.
struct ScaleMin {
  int scale = 0;
  int min = 0;
};

ScaleMin scale_min(const std::byte* packed, std::size_t group) {
  if (group < 4) return {byte_at(packed, group) & 63, byte_at(packed, group + 4) & 63};
  const int low = byte_at(packed, group + 4);
  return {(low & 15) | (byte_at(packed, group - 4) >> 6) << 4,
          (low >> 4) | (byte_at(packed, group) >> 6) << 4};
}

/// Scale of one 16-element group in Q3_K: sixteen 6-bit numbers in 12 bytes, lower four bits
/// first, less 32.
int q3_scale(const std::byte* packed, std::size_t group) {
  const int low = group < 8 ? byte_at(packed, group) & 15 : byte_at(packed, group - 8) >> 4;
  const int high = (byte_at(packed, 8 + group % 4) >> (2 * (group / 4))) & 3;
  return (low | high << 4) - 32;
}

}  // namespace

// 16 bytes of scale (low nibble) and minimum (high nibble), 64 bytes of 2-bit q, d, dmin.
void dequantize_q2_k(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kSuper, src += 84) {
    const std::byte* scales = src;
    const std::byte* q = src + 16;
    const float d = load_half(src + 80);
    const float dmin = load_half(src + 82);
    for (std::size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(byte_at(scales, group) & 15);
      const float min = dmin * static_cast<float>(byte_at(scales, group) >> 4);
      const std::size_t first = 32 * (group / 8) + 16 * (group % 2);
      const std::size_t shift = 2 * (group % 8 / 2);
      for (std::size_t j = 0; j < 16; ++j) {
        *dst++ = scale * static_cast<float>((byte_at(q, first + j) >> shift) & 3) - min;
      }
    }
  }
}

// 32 bytes of third bits (0 means minus 4), 64 bytes of lower two bits, 12 bytes of scales, d.
void dequantize_q3_k(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kSuper, src += 110) {
    const std::byte* third = src;
    const std::byte* q = src + 32;
    const std::byte* scales = src + 96;
    const float d = load_half(src + 108);
    for (std::size_t group = 0; group < 16; ++group) {
      const float scale = d * static_cast<float>(q3_scale(scales, group));
      const std::size_t half = 16 * (group % 2);
      const std::size_t first = 32 * (group / 8) + half;
      const std::size_t shift = 2 * (group % 8 / 2);
      for (std::size_t j = 0; j < 16; ++j) {
        const int low = (byte_at(q, first + j) >> shift) & 3;
        const int high = (byte_at(third, half + j) >> (group / 2)) & 1;
        *dst++ = scale * static_cast<float>(low - (high != 0 ? 0 : 4));
      }
    }
  }
}

// d, dmin, 12 bytes of scales and minima, 128 bytes: each 32 hold two groups, low nibbles first.
void dequantize_q4_k(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kSuper, src += 144) {
    const float d = load_half(src);
    const float dmin = load_half(src + 2);
    const std::byte* q = src + 16;
    for (std::size_t group = 0; group < 8; ++group) {
      const ScaleMin sm = scale_min(src + 4, group);
      const float scale = d * static_cast<float>(sm.scale);
      const float min = dmin * static_cast<float>(sm.min);
      const std::size_t shift = 4 * (group % 2);
      for (std::size_t j = 0; j < 32; ++j) {
        const int value = (byte_at(q, 32 * (group / 2) + j) >> shift) & 15;
        *dst++ = scale * static_cast<float>(value) - min;
      }
    }
  }
}

// As Q4_K, with 32 bytes of fifth bits (bit g for group g) before the nibbles.
void dequantize_q5_k(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kSuper, src += 176) {
    const float d = load_half(src);
    const float dmin = load_half(src + 2);
    const std::byte* fifth = src + 16;
    const std::byte* q = src + 48;
    for (std::size_t group = 0; group < 8; ++group) {
      const ScaleMin sm = scale_min(src + 4, group);
      const float scale = d * static_cast<float>(sm.scale);
      const float min = dmin * static_cast<float>(sm.min);
      const std::size_t shift = 4 * (group % 2);
      for (std::size_t j = 0; j < 32; ++j) {
        const int low = (byte_at(q, 32 * (group / 2) + j) >> shift) & 15;
        const int high = (byte_at(fifth, j) >> group) & 1;
        *dst++ = scale * static_cast<float>(low | high << 4) - min;
      }
    }
  }
}

// 128 bytes of lower nibbles, 64 bytes of upper two bits, 16 int8 scales, d; q - 32. Each half of
// 128 elements has four runs of 32: low nibbles of its first and second 32 bytes, then high ones.
void dequantize_q6_k(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kSuper, src += 210) {
    const std::byte* scales = src + 192;
    const float d = load_half(src + 208);
    for (std::size_t run = 0; run < 8; ++run) {
      const std::byte* low = src + 64 * (run / 4) + 32 * (run % 2);
      const std::byte* high = src + 128 + 32 * (run / 4);
      const std::size_t low_shift = 4 * (run % 4 / 2);
      const std::size_t high_shift = 2 * (run % 4);
      for (std::size_t j = 0; j < 32; ++j) {
        const int q = ((byte_at(low, j) >> low_shift) & 15) | ((byte_at(high, j) >> high_shift) & 3)
                                                                  << 4;
        const float scale = d * static_cast<float>(signed_byte_at(scales, 2 * run + j / 16));
        *dst++ = scale * static_cast<float>(q - 32);
      }
    }
  }
}

}  // namespace sluice::kernels
