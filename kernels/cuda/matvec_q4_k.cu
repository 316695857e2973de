// Products with Q4_K weights. A unit is 16 bytes of nibbles: 16 columns of one group of 32 (the
// low ones) and the 16 at the same place in the next group.
#include "kernels/cuda/matvec_rounded.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kUnitsPerBlock = 8;

/// As scale_min() of weight_blocks.hpp, from words y, z, w of a block's head.
__device__ ScaleMin scale_min(const uint4& head, int group) {
  const int i = group % 4;
  const int first = byte_of(head.y, i);   // bytes 0 to 3
  const int second = byte_of(head.z, i);  // 4 to 7
  if (group < 4) return {first & 63, second & 63};
  const int third = byte_of(head.w, i);  // 8 to 11
  return {(third & 15) | (first >> 6) << 4, (third >> 4) | (second >> 6) << 4};
}

struct Q4_K {
  static constexpr int kUnitCols = 32;
  static constexpr int kOutputsOfManyRows = 2;

  struct Input {
    Codes16 codes[2];
    float scales[2];
    float sums[2];  ///< of the codes

    __device__ Input(const Matvec& operands, int row, int unit) {
      const int cols = operands.weights.cols;
      const int pair = unit / 2;  // of groups
      const std::int64_t first = offset_of(row, cols) + 64 * pair + unit % 2 * 16;
      for (int g = 0; g < 2; ++g) {
        codes[g] = load_codes16(operands.rounded, first + 32 * g);
        scales[g] = operands.rounded.scales[offset_of(row, cols / 32) + 2 * pair + g];
        sums[g] = static_cast<float>(sum16(codes[g], 0));
      }
    }
  };

  unsigned nibbles[4];
  float scales[2];
  float mins[2];

  static __device__ Q4_K load(const Weights& w, int output, int unit) {
    const auto* const block = static_cast<const unsigned char*>(w.data) +
                              144 * (offset_of(output, w.cols / 256) + unit / kUnitsPerBlock);
    const int in_block = unit % kUnitsPerBlock;
    // The first 16 bytes at once: d, dmin, and twelve bytes of scales and minima.
    const uint4 head = *reinterpret_cast<const uint4*>(block);
    const uint4 all = *reinterpret_cast<const uint4*>(block + 16 + 16 * in_block);
    Q4_K loaded{{all.x, all.y, all.z, all.w}, {}, {}};
    const float d = half_to_float(static_cast<std::uint16_t>(head.x & 0xFFFFU));
    const float dmin = half_to_float(static_cast<std::uint16_t>(head.x >> 16));
    for (int g = 0; g < 2; ++g) {
      const ScaleMin both = scale_min(head, in_block / 2 * 2 + g);
      loaded.scales[g] = multiply(d, static_cast<float>(both.scale));
      loaded.mins[g] = multiply(dmin, static_cast<float>(both.min));
    }
    return loaded;
  }

  __device__ void dot(const Input& x, float& total) const {
    for (int g = 0; g < 2; ++g) {
      int product = 0;
      for (int i = 0; i < 4; ++i)
        product = __dp4a(static_cast<int>(nibbles[i] >> (4 * g) & 0x0F0F0F0FU), x.codes[g].words[i],
                         product);
      const float min = multiply(mins[g], x.sums[g]);
      const float group = multiply_add(scales[g], static_cast<float>(product), -min);
      total = multiply_add(x.scales[g], group, total);
    }
  }
};

}  // namespace

LaunchStatus matvec_q4_k(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_matvec<Q4_K>("matvec_q4_k", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
