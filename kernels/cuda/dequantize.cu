// Weights as plain numbers, for matrix products. One thread decodes eight.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/weight_blocks.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;

/// Grid: (octets of a row / kThreads, rows).
__global__ void dequantize_kernel(Weights weights, Rows out) {
  const int first = (block_x() * kThreads + thread_x()) * kOctet;
  if (first >= weights.cols) return;
  const int n = weights.cols - first < kOctet ? weights.cols - first : kOctet;
  for (int row = block_y(); row < weights.rows; row += static_cast<int>(gridDim.y)) {
    float values[kOctet] = {};
    decode_octet(weights, row, first, n, values);
    const std::int64_t to = offset_of(row, out.stride) + first;
    for (int i = 0; i < n; ++i) store_element(out.data, out.type, to + i, values[i]);
  }
}

}  // namespace

LaunchStatus dequantize(const Weights& weights, const Rows& out, Stream stream) {
  constexpr const char* kName = "dequantize";
  if (!well_formed(weights) || !out.present() || out.stride < weights.cols) return bad_shape(kName);
  if (weights.rows == 0) return nothing(kName);
  const std::int64_t octets = divide_up(weights.cols, kOctet);
  return launch(kName, dequantize_kernel,
                grid_of(divide_up(octets, kThreads), grid_rows(weights.rows)), kThreads, 0, stream,
                weights, out);
}

}  // namespace sluice::kernels::cuda
