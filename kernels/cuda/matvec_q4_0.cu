// Products with Q4_0 weights. A unit is a block: 32 columns.
#include "kernels/cuda/matvec_rounded.hpp"

namespace sluice::kernels::cuda {
namespace {

template <bool kArranged>
struct Q4_0 {
  static constexpr int kUnitCols = 32;
  static constexpr int kOutputsOfManyRows = 2;

  struct Input {
    Codes16 low;
    Codes16 high;
    float scale;

    __device__ Input(const Matvec& operands, int row, int unit) {
      const int cols = operands.weights.cols;
      const std::int64_t first = offset_of(row, cols) + unit * kUnitCols;
      low = load_codes16(operands.rounded, first);
      high = load_codes16(operands.rounded, first + 16);
      scale = operands.rounded.scales[offset_of(row, cols / 32) + unit];
    }
  };

  Codes16 nibbles;
  float d;

  static __device__ Q4_0 load(const Weights& w, int output, int unit) {
    const std::int64_t block = offset_of(output, w.cols / kUnitCols) + unit;
    const Q4_0Parts parts = parts_q4_0(w.data, kArranged, block);
    // A nibble q in the upper half of a byte, its first bit turned, is the signed byte
    // 16 (q - 8): so the sums come out 16 times too large.
    return {kArranged ? load_codes16(parts.nibbles) : gather_codes16(parts.nibbles),
            load_half(parts.d) * 0.0625F};
  }

  __device__ void dot(const Input& x, float& total) const {
    int product = 0;
    for (int i = 0; i < 4; ++i) {
      const auto word = static_cast<unsigned>(nibbles.words[i]);
      const unsigned low = (word << 4 & 0xF0F0F0F0U) ^ 0x80808080U;
      const unsigned high = (word & 0xF0F0F0F0U) ^ 0x80808080U;
      product = __dp4a(static_cast<int>(low), x.low.words[i], product);
      product = __dp4a(static_cast<int>(high), x.high.words[i], product);
    }
    total = multiply_add(multiply(d, x.scale), static_cast<float>(product), total);
  }
};

}  // namespace

LaunchStatus matvec_q4_0(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_arranged<Q4_0>("matvec_q4_0", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
