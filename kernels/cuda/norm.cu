// RMS norm (Zhang and Sennrich 2019) and layer norm (Ba et al. 2016), with the sum that comes
// before them. One block a row; each thread takes every so many elements, the same ones in each
// pass, so that it reads nothing that another thread has written.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kMaxThreads = 256;
constexpr int kMaxSize = 65536;

/// Threads for rows of n: depends on n alone, and so do the sums.
constexpr int threads_for(int n) {
  const int warps = (n + 4 * kWarp - 1) / (4 * kWarp);
  return kWarp * (warps < kMaxThreads / kWarp ? warps : kMaxThreads / kWarp);
}

/// y = (x - shift) * factor, then weight and bias.
struct Statistics {
  float shift;
  float factor;
};

__device__ Statistics statistics_of(const float* x, int n, const NormWeights& norm, float* work) {
  const int step = block_threads();
  float shift = 0.0F;
  if (norm.kind == NormKind::kLayer) {
    float total = 0.0F;
    for (int i = thread_x(); i < n; i += step) total += x[i];
    shift = block_sum(total, work) / static_cast<float>(n);
  }
  float squares = 0.0F;
  for (int i = thread_x(); i < n; i += step) {
    const float d = x[i] - shift;
    squares = multiply_add(d, d, squares);
  }
  const float mean = block_sum(squares, work) / static_cast<float>(n);
  return {shift, 1.0F / sqrtf(mean + norm.epsilon)};
}

__device__ float apply(const NormWeights& norm, const Statistics& statistics, float x, int i) {
  const float y = (x - statistics.shift) * statistics.factor * norm.weight[i];
  return norm.bias != nullptr ? y + norm.bias[i] : y;
}

/// hidden += scale * post_norm(block), for one row.
__device__ void add_block(const AddNorm& work_of, const float* block, float* hidden, float* work) {
  const int n = work_of.n;
  const bool normed = work_of.post_norm.weight != nullptr;
  const Statistics statistics =
      normed ? statistics_of(block, n, work_of.post_norm, work) : Statistics{0.0F, 1.0F};
  for (int i = thread_x(); i < n; i += block_threads()) {
    const float x = normed ? apply(work_of.post_norm, statistics, block[i], i) : block[i];
    hidden[i] = multiply_add(work_of.residual_scale, x, hidden[i]);
  }
}

/// Grid: (rows). Shared: a float for each warp.
__global__ void __launch_bounds__(kMaxThreads) add_norm_kernel(AddNorm operands) {
  SharedMemory shared;
  float* const work = shared.take<float>(kMaxThreads / kWarp);
  const int n = operands.n;
  const int row = block_x();
  const int from = operands.row_index != nullptr ? operands.row_index[row] : row;
  const std::int64_t to = offset_of(row, operands.out.stride);
  if (from < 0) {
    for (int i = thread_x(); i < n; i += block_threads())
      store_element(operands.out.data, operands.out.type, to + i, 0.0F);
    return;
  }
  float* const hidden = operands.hidden + offset_of(from, n);
  if (operands.block != nullptr)
    add_block(operands, operands.block + offset_of(row, n), hidden, work);
  if (operands.out.data == nullptr) return;
  const bool normed = operands.norm.weight != nullptr;
  const Statistics statistics =
      normed ? statistics_of(hidden, n, operands.norm, work) : Statistics{0.0F, 1.0F};
  for (int i = thread_x(); i < n; i += block_threads()) {
    const float y = normed ? apply(operands.norm, statistics, hidden[i], i) : hidden[i];
    store_element(operands.out.data, operands.out.type, to + i, y);
  }
}

/// Grid: (vectors, rows).
__global__ void __launch_bounds__(kMaxThreads)
    norm_vectors_kernel(float* x, std::int32_t stride, int rows, int n, NormWeights norm) {
  SharedMemory shared;
  float* const work = shared.take<float>(kMaxThreads / kWarp);
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) {
    float* const vector = x + offset_of(row, stride) + offset_of(block_x(), n);
    const Statistics statistics = statistics_of(vector, n, norm, work);
    for (int i = thread_x(); i < n; i += block_threads())
      vector[i] = apply(norm, statistics, vector[i], i);
  }
}

constexpr std::size_t kShared = shared_bytes<float>(kMaxThreads / kWarp);

}  // namespace

LaunchStatus add_norm(const AddNorm& operands, std::int32_t rows, Stream stream) {
  constexpr const char* kName = "add_norm";
  const bool useless = operands.out.data == nullptr && operands.block == nullptr;
  const bool scattered =
      operands.row_index != nullptr && (operands.block != nullptr || operands.out.data == nullptr);
  if (operands.hidden == nullptr || operands.n < 1 || operands.n > kMaxSize || rows < 0 ||
      useless || scattered || (operands.out.data != nullptr && operands.out.stride < operands.n))
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, add_norm_kernel, grid_of(rows), threads_for(operands.n), kShared, stream,
                operands);
}

LaunchStatus norm_vectors(float* x, std::int32_t stride, std::int32_t rows, std::int32_t vectors,
                          std::int32_t n, const float* weight, float epsilon, Stream stream) {
  constexpr const char* kName = "norm_vectors";
  if (x == nullptr || weight == nullptr || rows < 0 || vectors < 1 || n < 1 || n > kMaxSize ||
      stride / n < vectors)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  const NormWeights norm{weight, nullptr, NormKind::kRms, epsilon};
  return launch(kName, norm_vectors_kernel, grid_of(vectors, grid_rows(rows)), threads_for(n),
                kShared, stream, x, stride, rows, n, norm);
}

}  // namespace sluice::kernels::cuda
