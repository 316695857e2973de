// Activations of the feed-forward part, with the product by the other branch.
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kThreads = 128;

__device__ float silu(float x) {
  return x / (1.0F + expf(-x));
}

/// Hendrycks and Gimpel 2016, the tanh form.
__device__ float gelu(float x) {
  constexpr float kSqrt2OverPi = 0.7978845608F;
  const float inner = kSqrt2OverPi * multiply_add(0.044715F * x * x, x, x);
  return 0.5F * x * (1.0F + tanhf(inner));
}

__device__ float clamped_swish(float gate, float up) {
  const float g = gate < 7.0F ? gate : 7.0F;
  const float high = up < 7.0F ? up : 7.0F;
  const float u = high > -7.0F ? high : -7.0F;
  return g / (1.0F + expf(-1.702F * g)) * (u + 1.0F);
}

/// Grid: (elements of a row / kThreads, rows).
__global__ void activate_kernel(Activation activation, const float* gate, const float* up,
                                std::int32_t stride, int rows, int n, Rows out) {
  const int i = block_x() * kThreads + thread_x();
  if (i >= n) return;
  for (int row = block_y(); row < rows; row += static_cast<int>(gridDim.y)) {
    const std::int64_t from = offset_of(row, stride) + i;
    const float g = gate[from];
    const float u = up != nullptr ? up[from] : 1.0F;
    float y = 0.0F;
    switch (activation) {
      case Activation::kSilu:
        y = silu(g) * u;
        break;
      case Activation::kGelu:
        y = gelu(g) * u;
        break;
      case Activation::kClampedSwish:
        y = clamped_swish(g, u);
        break;
    }
    store_element(out.data, out.type, offset_of(row, out.stride) + i, y);
  }
}

}  // namespace

LaunchStatus activate(Activation activation, const float* gate, const float* up,
                      std::int32_t stride, std::int32_t rows, std::int32_t n, const Rows& out,
                      Stream stream) {
  constexpr const char* kName = "activate";
  if (gate == nullptr || !out.present() || rows < 0 || n < 1 || stride < n || out.stride < n ||
      (up == nullptr && activation == Activation::kClampedSwish))
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, activate_kernel, grid_of(divide_up(n, kThreads), grid_rows(rows)), kThreads,
                0, stream, activation, gate, up, stride, rows, n, out);
}

}  // namespace sluice::kernels::cuda
