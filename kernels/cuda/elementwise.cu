// Sums, scales and conversions, element by element.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;

// Grids: (elements of a row / kThreads, rows). f(row, i) for every element of the thread.
template <class F>
__device__ void for_each(int rows, int n, const F& f) {
  const int i = block_x() * kThreads + thread_x();
  if (i >= n) return;
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) f(row, i);
}

dim3 grid_over(std::int32_t rows, std::int32_t n) {
  return grid_of(divide_up(n, kThreads), grid_rows(rows));
}

__global__ void add_bias_kernel(float* y, std::int32_t stride, int rows, int n, const float* bias) {
  for_each(rows, n, [&](int row, int i) { y[offset_of(row, stride) + i] += bias[i]; });
}

__global__ void add_scaled_kernel(float* y, const float* x, float factor, int rows, int n) {
  for_each(rows, n, [&](int row, int i) {
    const std::int64_t at = offset_of(row, n) + i;
    y[at] = multiply_add(factor, x[at], y[at]);
  });
}

__global__ void scale_and_cap_kernel(float* x, int rows, int n, float scale, float cap) {
  for_each(rows, n, [&](int row, int i) {
    float& at = x[offset_of(row, n) + i];
    const float scaled = at * scale;
    at = cap != 0.0F ? cap * tanhf(scaled / cap) : scaled;
  });
}

__global__ void convert_kernel(const float* x, std::int32_t stride, int rows, int n, Rows out) {
  for_each(rows, n, [&](int row, int i) {
    store_element(out.data, out.type, offset_of(row, out.stride) + i,
                  x[offset_of(row, stride) + i]);
  });
}

__global__ void gather_kernel(const float* x, const std::int32_t* row_index, int rows, int n,
                              float* out) {
  for_each(rows, n, [&](int row, int i) {
    const int from = row_index[row];
    out[offset_of(row, n) + i] = from < 0 ? 0.0F : x[offset_of(from, n) + i];
  });
}

}  // namespace

LaunchStatus add_bias(float* y, std::int32_t stride, std::int32_t rows, std::int32_t n,
                      const float* bias, Stream stream) {
  constexpr const char* kName = "add_bias";
  if (y == nullptr || bias == nullptr || rows < 0 || n < 1 || stride < n) return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, add_bias_kernel, grid_over(rows, n), kThreads, 0, stream, y, stride, rows, n,
                bias);
}

LaunchStatus add_scaled(float* y, const float* x, float factor, std::int32_t rows, std::int32_t n,
                        Stream stream) {
  constexpr const char* kName = "add_scaled";
  if (y == nullptr || x == nullptr || rows < 0 || n < 1) return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, add_scaled_kernel, grid_over(rows, n), kThreads, 0, stream, y, x, factor,
                rows, n);
}

LaunchStatus scale_and_cap(float* x, std::int32_t rows, std::int32_t n, float scale, float cap,
                           Stream stream) {
  constexpr const char* kName = "scale_and_cap";
  if (x == nullptr || rows < 0 || n < 1) return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, scale_and_cap_kernel, grid_over(rows, n), kThreads, 0, stream, x, rows, n,
                scale, cap);
}

LaunchStatus convert_rows(const float* x, std::int32_t stride, std::int32_t rows, std::int32_t n,
                          const Rows& out, Stream stream) {
  constexpr const char* kName = "convert_rows";
  if (x == nullptr || !out.present() || rows < 0 || n < 1 || stride < n || out.stride < n)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, convert_kernel, grid_over(rows, n), kThreads, 0, stream, x, stride, rows, n,
                out);
}

LaunchStatus gather_rows(const float* x, const std::int32_t* row_index, std::int32_t rows,
                         std::int32_t n, float* out, Stream stream) {
  constexpr const char* kName = "gather_rows";
  if (x == nullptr || row_index == nullptr || out == nullptr || rows < 0 || n < 1)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, gather_kernel, grid_over(rows, n), kThreads, 0, stream, x, row_index, rows,
                n, out);
}

}  // namespace sluice::kernels::cuda
