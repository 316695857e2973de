// Products with Q8_0 weights. A unit is half a block: 16 neighbouring columns.
#include "kernels/cuda/matvec.hpp"
#include "kernels/cuda/matvec_rounded.hpp"
#include "kernels/cuda/weight_blocks.hpp"

namespace sluice::kernels::cuda {
namespace {

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

  static __device__ Q8_0 load(const unsigned char* row, const Matvec&, int unit) {
    const unsigned char* const block = row + offset_of(unit / 2, 34);
    Q8_0 loaded;
    for (int i = 0; i < 4; ++i)
      loaded.codes.words[i] = static_cast<int>(load_u32(block + 2 + unit % 2 * kUnitCols + 4 * i));
    loaded.d = load_half(block);
    return loaded;
  }

  __device__ void dot(const Input& x, float& total) const {
    const auto product = static_cast<float>(dot16(codes, x.codes, 0));
    total = multiply_add(multiply(d, x.scale), product, total);
  }
};

}  // namespace

LaunchStatus matvec_q8_0(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_matvec<Q8_0>("matvec_q8_0", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
