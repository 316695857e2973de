// Rows of a table, by number. One thread decodes eight elements.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/weight_blocks.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;

/// Grid: (octets of a row / kThreads, rows).
__global__ void embed_kernel(Weights table, const std::int32_t* ids, int rows, float scale,
                             bool add, float* out) {
  const int first = (block_x() * kThreads + thread_x()) * kOctet;
  if (first >= table.cols) return;
  const int n = table.cols - first < kOctet ? table.cols - first : kOctet;
  // More rows than the grid's second dimension has places.
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) {
    const int id = ids[row];
    float* const to = out + offset_of(row, table.cols) + first;
    if (id < 0 || id >= table.rows) {
      for (int i = 0; i < n && !add; ++i) to[i] = 0.0F;
      continue;
    }
    float values[kOctet] = {};
    decode_octet(table, id, first, n, values);
    for (int i = 0; i < n; ++i) {
      const float scaled = multiply(scale, values[i]);
      to[i] = add ? sum(to[i], scaled) : scaled;
    }
  }
}

}  // namespace

LaunchStatus embed_rows(const Weights& table, const std::int32_t* ids, std::int32_t rows,
                        float scale, bool add, float* out, Stream stream) {
  constexpr const char* kName = "embed_rows";
  if (!well_formed(table) || ids == nullptr || out == nullptr || rows < 0) return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  const std::int64_t octets = divide_up(table.cols, kOctet);
  return launch(kName, embed_kernel, grid_of(divide_up(octets, kThreads), grid_rows(rows)),
                kThreads, 0, stream, table, ids, rows, scale, add, out);
}

}  // namespace sluice::kernels::cuda
