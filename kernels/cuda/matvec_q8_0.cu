// Products with Q8_0 weights. A unit is half a block: 16 neighbouring columns.
#include "kernels/cuda/matvec_rounded.hpp"

namespace sluice::kernels::cuda {
namespace {

template <bool kArranged>
struct Q8_0 {
  static constexpr int kUnitCols = 16;
  static constexpr int kOutputsOfManyRows = 4;

  struct Input {
    Codes16 codes;
    float scale;

    __device__ Input(const Matvec& operands, int row, int unit) {
      const int cols = operands.weights.cols;
      codes = load_codes16(operands.rounded, offset_of(row, cols) + unit * kUnitCols);
      scale = operands.rounded.scales[offset_of(row, cols / 32) + unit / 2];
    }
  };

  Codes16 codes;
  float d;

  static __device__ Q8_0 load(const Weights& w, int output, int unit) {
    const std::int64_t block = offset_of(output, w.cols / 32) + unit / 2;
    const Q8_0Parts parts = parts_q8_0(w.data, kArranged, block);
    const unsigned char* const half = parts.codes + unit % 2 * kUnitCols;
    return {kArranged ? load_codes16(half) : gather_codes16(half), load_half(parts.d)};
  }

  __device__ void dot(const Input& x, float& total) const {
    const auto product = static_cast<float>(dot16(codes, x.codes, 0));
    total = multiply_add(multiply(d, x.scale), product, total);
  }
};

}  // namespace

LaunchStatus matvec_q8_0(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_arranged<Q8_0>("matvec_q8_0", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
