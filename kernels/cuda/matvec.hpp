// The product of a few rows with a matrix, written once for every weight type.
//
// A warp computes kOutputs outputs of kRows rows. A weight type says how a row of weights is cut
// into units; lane l takes units l, l + 32, ... in this order, and the lanes' sums are added as a
// butterfly. So the sum of one row and one output depends on the number of columns alone.
//
// A weight type W has
//   kUnitCols                           columns that a unit covers (not always neighbours)
//   W::load(weights, output, unit)      one unit of a row of weights, in registers
//   W::Input(operands, row, unit)       the numbers of an input row that belong to it
//   weights.dot(input, sum)             their product, added to sum
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {

inline constexpr int kMatvecThreads = 128;
inline constexpr int kMatvecWarps = kMatvecThreads / kWarp;
inline constexpr int kMatvecRows = 8;  // most input rows of a pass

/// Blocks of a multiprocessor that leave registers enough for no spills.
template <int kRows>
constexpr int kMatvecBlocks = kRows <= 4 ? 5 : 3;

/// Grid: outputs / (warps of a block * kOutputs) times rows / kRows, the rows first: blocks that
/// run at a time then read the same weights.
template <class W, int kRows, int kOutputs>
__global__ void __launch_bounds__(kMatvecThreads, kMatvecBlocks<kRows>)
    matvec_kernel(Matvec operands, int rows) {
  const int outputs = operands.weights.rows;
  const int row_blocks = (rows + kRows - 1) / kRows;
  const int first_output = (block_x() / row_blocks * kMatvecWarps + warp_index()) * kOutputs;
  const int first_row = block_x() % row_blocks * kRows;
  if (first_output >= outputs) return;

  float sums[kRows * kOutputs] = {};
  const int units = (operands.weights.cols + W::kUnitCols - 1) / W::kUnitCols;
  for (int unit = lane_index(); unit < units; unit += kWarp) {
    W loaded[kOutputs];
    SLUICE_UNROLL
    for (int n = 0; n < kOutputs; ++n) {
      // Behind the end the last one is computed again, and not stored.
      const int output = first_output + n < outputs ? first_output + n : outputs - 1;
      loaded[n] = W::load(operands.weights, output, unit);
    }
    SLUICE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int row = first_row + r < rows ? first_row + r : rows - 1;
      const typename W::Input input(operands, row, unit);
      SLUICE_UNROLL
      for (int n = 0; n < kOutputs; ++n) loaded[n].dot(input, sums[r * kOutputs + n]);
    }
  }
  constexpr int kSums = kRows * kOutputs;
  float y = warp_sums<kSums>(sums);
  const int mine = lane_index() / (kWarp / kSums);
  const int row = first_row + mine / kOutputs;
  const int output = first_output + mine % kOutputs;
  if (lane_index() % (kWarp / kSums) != 0 || row >= rows || output >= outputs) return;
  float& to = operands.y[offset_of(row, operands.y_stride) + output];
  if (operands.bias != nullptr) y += operands.bias[output];
  to = operands.add ? to + y : y;
}

template <class W, int kRows, int kOutputs>
LaunchStatus launch_matvec(const char* name, const Matvec& operands, std::int32_t rows,
                           Stream stream) {
  const Weights& w = operands.weights;
  return launch(name, matvec_kernel<W, kRows, kOutputs>,
                grid_of(divide_up(w.rows, kMatvecWarps * kOutputs) * divide_up(rows, kRows)),
                kMatvecThreads, 0, stream, operands, rows);
}

/// More rows share what is read of the weights; more outputs share what is read of the rows.
template <class W>
LaunchStatus launch_matvec(const char* name, const Matvec& operands, std::int32_t rows,
                           Stream stream) {
  if (rows == 1) return launch_matvec<W, 1, 1>(name, operands, rows, stream);
  if (rows == 2) return launch_matvec<W, 2, 2>(name, operands, rows, stream);
  if (rows <= 4) return launch_matvec<W, 4, 2>(name, operands, rows, stream);
  return launch_matvec<W, kMatvecRows, W::kOutputsOfManyRows>(name, operands, rows, stream);
}

// One file each; operands are checked.
LaunchStatus matvec_f32(const Matvec& operands, std::int32_t rows, Stream stream);
LaunchStatus matvec_f16(const Matvec& operands, std::int32_t rows, Stream stream);
LaunchStatus matvec_bf16(const Matvec& operands, std::int32_t rows, Stream stream);
LaunchStatus matvec_q8_0(const Matvec& operands, std::int32_t rows, Stream stream);
LaunchStatus matvec_q4_0(const Matvec& operands, std::int32_t rows, Stream stream);
LaunchStatus matvec_q4_k(const Matvec& operands, std::int32_t rows, Stream stream);
LaunchStatus matvec_q6_k(const Matvec& operands, std::int32_t rows, Stream stream);

}  // namespace sluice::kernels::cuda
