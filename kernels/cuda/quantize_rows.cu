// Inputs of quantised matrices rounded to 8 bits. A warp rounds 32 columns of a row.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rounding.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kGroup = kWarp;

/// Grid: (groups of a row / warps of a block, rows).
__global__ void quantize_rows_kernel(const float* x, std::int32_t stride, int rows, int cols,
                                     RoundedRows out) {
  const int groups = cols / kGroup;
  const int group = block_x() * (kThreads / kWarp) + warp_index();
  if (group >= groups) return;
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) {
    const int col = group * kGroup + lane_index();
    const float value = x[offset_of(row, stride) + col];
    const GroupExtent extent = group_extent(value);
    const float scale = extent.finite ? __fdiv_rn(extent.largest, 127.0F) : infinity() - infinity();
    out.codes[offset_of(row, cols) + col] =
        extent.finite ? round_code(value, scale) : std::int8_t{0};
    if (lane_index() == 0) out.scales[offset_of(row, groups) + group] = scale;
  }
}

}  // namespace

LaunchStatus quantize_rows(const float* x, std::int32_t stride, std::int32_t rows,
                           std::int32_t cols, const RoundedRows& out, Stream stream) {
  constexpr const char* kName = "quantize_rows";
  if (x == nullptr || out.codes == nullptr || out.scales == nullptr || rows < 0 || cols < kGroup ||
      cols % kGroup != 0 || stride < cols)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, quantize_rows_kernel,
                grid_of(divide_up(cols / kGroup, kThreads / kWarp), grid_rows(rows)), kThreads, 0,
                stream, x, stride, rows, cols, out);
}

}  // namespace sluice::kernels::cuda
