// Matrix products of a step: by our kernels, whose bits for a row depend on the row alone, or by
// cuBLAS from some row on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/device_queue.hpp"
#include "engine/backend/cuda/device_weights.hpp"

namespace sluice {

/// Device memory that products need.
struct ProductBuffers {
  std::int8_t* codes = nullptr;  ///< [rows x widest input]: inputs rounded to 8 bits
  float* scales = nullptr;       ///< [rows x widest input / 32]
  float* decoded = nullptr;      ///< decoded_elements(): a piece of a matrix, for cuBLAS
};

class CudaProducts {
 public:
  CudaProducts() = default;
  CudaProducts(DeviceQueue& queue, const ProductBuffers& buffers)
      : queue_(&queue), buffers_(buffers) {}

  /// Floats of ProductBuffers::decoded for matrices of at most so many columns.
  static std::size_t decoded_elements(std::size_t widest);

  /// y = W x + bias for `rows` rows of x and y; those from `gemm_from` on by cuBLAS.
  void multiply(const JointMatrix& matrix, const float* x, std::int32_t x_stride, float* y,
                std::int32_t rows, std::int32_t gemm_from);

 private:
  void by_kernels(const JointMatrix& matrix, const float* x, std::int32_t x_stride, float* y,
                  std::int32_t rows);
  void by_gemm(const DeviceMatrix& part, const float* x, std::int32_t x_stride, float* y,
               std::int32_t y_stride, std::int32_t rows);

  DeviceQueue* queue_ = nullptr;
  ProductBuffers buffers_;
};

}  // namespace sluice
