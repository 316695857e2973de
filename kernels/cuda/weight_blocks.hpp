// Weights as they lie in GGUF files, eight at a time. Values are bit for bit those of
// kernels/cpu/dequantize.hpp, which describes the layouts.
//
// Blocks of 34, 18 and 210 bytes are aligned to 2 bytes only, so codes are read as pairs.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.hpp"

namespace sluice::kernels::cuda {

/// Weights that are decoded at a time; rows of blocks are a multiple of it.
inline constexpr int kOctet = 8;

__device__ inline std::uint16_t load_u16(const unsigned char* at) {
  return *reinterpret_cast<const std::uint16_t*>(at);
}
/// From an address that is a multiple of 2.
__device__ inline unsigned load_u32(const unsigned char* at) {
  return load_u16(at) | static_cast<unsigned>(load_u16(at + 2)) << 16;
}
__device__ inline float load_half(const unsigned char* at) {
  return half_to_float(load_u16(at));
}

/// Byte i of a word, without and with a sign.
__device__ inline int byte_of(unsigned word, int i) {
  return static_cast<int>((word >> (8 * i)) & 0xFFU);
}
__device__ inline int signed_byte_of(unsigned word, int i) {
  return static_cast<std::int8_t>((word >> (8 * i)) & 0xFFU);
}

/// Scale and minimum of group 0 .. 7 of a Q4_K block, from its 12 bytes of 6-bit numbers.
struct ScaleMin {
  int scale;
  int min;
};
__device__ inline ScaleMin scale_min(const unsigned char* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  const int low = packed[group + 4];
  return {(low & 15) | (packed[group - 4] >> 6) << 4, (low >> 4) | (packed[group] >> 6) << 4};
}

// Where the parts of block number `block` of a matrix lie, as the file has them or arranged in
// groups of eight (see arrange_weights()).

inline constexpr int kArrangedBlocks = 8;

struct Q8_0Parts {
  const unsigned char* d;
  const unsigned char* codes;  ///< 32; arranged: aligned to 16 bytes
};
__device__ inline Q8_0Parts parts_q8_0(const void* data, bool arranged, std::int64_t block) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  if (!arranged) return {bytes + 34 * block, bytes + 34 * block + 2};
  const unsigned char* const group = bytes + 272 * (block / kArrangedBlocks);
  const int in_group = static_cast<int>(block % kArrangedBlocks);
  return {group + 2 * in_group, group + 16 + 32 * in_group};
}

struct Q4_0Parts {
  const unsigned char* d;
  const unsigned char* nibbles;  ///< 16 bytes; arranged: aligned to 16 bytes
};
__device__ inline Q4_0Parts parts_q4_0(const void* data, bool arranged, std::int64_t block) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  if (!arranged) return {bytes + 18 * block, bytes + 18 * block + 2};
  const unsigned char* const group = bytes + 144 * (block / kArrangedBlocks);
  const int in_group = static_cast<int>(block % kArrangedBlocks);
  return {group + 2 * in_group, group + 16 + 16 * in_group};
}

struct Q6_KParts {
  const unsigned char* low;     ///< 128 bytes of nibbles; arranged: aligned to 16 bytes
  const unsigned char* high;    ///< 64 bytes of upper bits; likewise
  const unsigned char* scales;  ///< 16
  const unsigned char* d;
};
__device__ inline Q6_KParts parts_q6_k(const void* data, bool arranged, std::int64_t block) {
  const auto* const bytes = static_cast<const unsigned char*>(data);
  if (!arranged) {
    const unsigned char* const all = bytes + 210 * block;
    return {all, all + 128, all + 192, all + 208};
  }
  const unsigned char* const group = bytes + 1680 * (block / kArrangedBlocks);
  const int in_group = static_cast<int>(block % kArrangedBlocks);
  return {group + 128 * in_group, group + 1024 + 64 * in_group, group + 1536 + 16 * in_group,
          group + 1664 + 2 * in_group};
}

// Eight weights from column `first` of a block, a multiple of 8.

__device__ inline void decode_q8_0(const Q8_0Parts& parts, int first, float* out) {
  const float d = load_half(parts.d);
  for (int half = 0; half < 2; ++half) {
    const unsigned word = load_u32(parts.codes + first + 4 * half);
    for (int i = 0; i < 4; ++i)
      out[4 * half + i] = multiply(d, static_cast<float>(signed_byte_of(word, i)));
  }
}

__device__ inline void decode_q4_0(const Q4_0Parts& parts, int first, float* out) {
  const float d = load_half(parts.d);
  const int shift = first / 16 * 4;
  for (int half = 0; half < 2; ++half) {
    const unsigned word = load_u32(parts.nibbles + first % 16 + 4 * half);
    for (int i = 0; i < 4; ++i)
      out[4 * half + i] = multiply(static_cast<float>((byte_of(word, i) >> shift & 15) - 8), d);
  }
}

__device__ inline void decode_q4_k(const unsigned char* block, int first, float* out) {
  const int group = first / 32;
  const ScaleMin both = scale_min(block + 4, group);
  const float scale = multiply(load_half(block), static_cast<float>(both.scale));
  const float min = multiply(load_half(block + 2), static_cast<float>(both.min));
  const int shift = 4 * (group % 2);
  for (int half = 0; half < 2; ++half) {
    const unsigned word = load_u32(block + 16 + 32 * (group / 2) + first % 32 + 4 * half);
    for (int i = 0; i < 4; ++i)
      out[4 * half + i] =
          sum(multiply(scale, static_cast<float>(byte_of(word, i) >> shift & 15)), -min);
  }
}

__device__ inline void decode_q6_k(const Q6_KParts& parts, int first, float* out) {
  const int run = first / 32;
  const int in_run = first % 32;
  const unsigned char* const low = parts.low + 64 * (run / 4) + 32 * (run % 2) + in_run;
  const unsigned char* const high = parts.high + 32 * (run / 4) + in_run;
  const auto code = static_cast<std::int8_t>(parts.scales[2 * run + in_run / 16]);
  const float scale = multiply(load_half(parts.d), static_cast<float>(code));
  for (int half = 0; half < 2; ++half) {
    const unsigned lows = load_u32(low + 4 * half) >> (4 * (run % 4 / 2));
    const unsigned highs = load_u32(high + 4 * half) >> (2 * (run % 4));
    for (int i = 0; i < 4; ++i) {
      const int q = (byte_of(lows, i) & 15) | (byte_of(highs, i) & 3) << 4;
      out[4 * half + i] = multiply(scale, static_cast<float>(q - 32));
    }
  }
}

/// Weights [first, first + n) of a row, first a multiple of 8, n at most 8 and less only at the
/// end of a row of plain numbers.
__device__ inline void decode_octet(const Weights& w, int row, int first, int n, float* out) {
  const auto block_of = [&](int size) { return offset_of(row, w.cols / size) + first / size; };
  const auto decode_plain = [&](ElementType type) {
    for (int i = 0; i < n; ++i)
      out[i] = load_element(w.data, type, offset_of(row, w.cols) + first + i);
  };
  switch (w.type) {
    case WeightType::kQ8_0:
      return decode_q8_0(parts_q8_0(w.data, w.arranged, block_of(32)), first % 32, out);
    case WeightType::kQ4_0:
      return decode_q4_0(parts_q4_0(w.data, w.arranged, block_of(32)), first % 32, out);
    case WeightType::kQ4_K:
      return decode_q4_k(static_cast<const unsigned char*>(w.data) + 144 * block_of(256),
                         first % 256, out);
    case WeightType::kQ6_K:
      return decode_q6_k(parts_q6_k(w.data, w.arranged, block_of(256)), first % 256, out);
    case WeightType::kF32:
      return decode_plain(ElementType::kF32);
    case WeightType::kF16:
      return decode_plain(ElementType::kF16);
    case WeightType::kBF16:
      return decode_plain(ElementType::kBF16);
  }
}

/// Data, whole blocks in a row, sizes.
inline bool well_formed(const Weights& weights) {
  return weights.data != nullptr && weights.rows >= 0 && weights.cols > 0 &&
         weights.cols % weight_block(weights.type) == 0 &&
         (!weights.arranged || can_arrange(weights.type, weights.rows, weights.cols));
}

}  // namespace sluice::kernels::cuda
