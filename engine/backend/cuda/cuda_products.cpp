#include "engine/backend/cuda/cuda_products.hpp"

#include <algorithm>

namespace sluice {
namespace {

namespace cuda = kernels::cuda;

/// Elements of a matrix that are decoded at a time for cuBLAS: 64 MiB.
constexpr std::size_t kPieceElements = std::size_t{16} << 20;
/// Rows in a piece are a multiple of it: pieces of any type then begin at whole 16 bytes, and at
/// whole groups of arranged blocks.
constexpr std::size_t kPieceRows = 16;

std::size_t size(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

bool quantised(const cuda::Weights& weights) {
  return cuda::weight_block(weights.type) > 1;
}

}  // namespace

std::size_t CudaProducts::decoded_elements(std::size_t widest) {
  return std::max(kPieceElements, kPieceRows * widest);
}

void CudaProducts::multiply(const JointMatrix& matrix, const float* x, std::int32_t x_stride,
                            float* y, std::int32_t rows, std::int32_t gemm_from) {
  if (gemm_from > 0) by_kernels(matrix, x, x_stride, y, gemm_from);
  if (gemm_from == rows) return;
  for (const DeviceMatrix& part : matrix.parts)
    by_gemm(part, x + size(gemm_from) * size(x_stride), x_stride,
            y + size(gemm_from) * size(matrix.stride), matrix.stride, rows - gemm_from);
}

void CudaProducts::by_kernels(const JointMatrix& matrix, const float* x, std::int32_t x_stride,
                              float* y, std::int32_t rows) {
  const cuda::RoundedRows rounded{buffers_.codes, buffers_.scales};
  if (std::ranges::any_of(matrix.parts, [](const auto& part) { return quantised(part.weights); }))
    queue_->launch([=, cols = matrix.in](cuda::Stream stream) {
      return cuda::quantize_rows(x, x_stride, rows, cols, rounded, stream);
    });
  for (const DeviceMatrix& part : matrix.parts) {
    cuda::Matvec operands;
    operands.weights = part.weights;
    operands.x = x;
    operands.x_stride = x_stride;
    if (quantised(part.weights)) operands.rounded = rounded;
    operands.bias = part.bias;
    operands.y = y + part.first_output;
    operands.y_stride = matrix.stride;
    queue_->launch([=](cuda::Stream stream) { return cuda::matvec(operands, rows, stream); });
  }
}

void CudaProducts::by_gemm(const DeviceMatrix& part, const float* x, std::int32_t x_stride,
                           float* y, std::int32_t y_stride, std::int32_t rows) {
  const cuda::Weights& all = part.weights;
  const std::size_t cols = size(all.cols);
  const std::size_t row_bytes = cuda::weight_row_bytes(all.type, all.cols);
  const bool plain = all.type == cuda::WeightType::kF32;
  const std::size_t piece =
      plain ? size(all.rows)
            : std::max(kPieceElements / cols / kPieceRows * kPieceRows, kPieceRows);
  for (std::size_t first = 0; first < size(all.rows); first += piece) {
    const std::size_t count = std::min(piece, size(all.rows) - first);
    cuda::Weights weights = all;
    weights.data = static_cast<const std::byte*>(all.data) + first * row_bytes;
    weights.rows = static_cast<std::int32_t>(count);
    const auto* decoded = static_cast<const float*>(weights.data);
    if (!plain) {
      const cuda::Rows out{buffers_.decoded, cuda::ElementType::kF32, all.cols};
      queue_->launch([=](cuda::Stream stream) { return cuda::dequantize(weights, out, stream); });
      decoded = buffers_.decoded;
    }
    queue_->gemm({x, decoded, y + part.first_output + first, size(rows), cols, count,
                  size(x_stride), size(y_stride)});
  }
  if (part.bias == nullptr) return;
  queue_->launch(
      [=, to = y + part.first_output, n = all.rows, bias = part.bias](cuda::Stream stream) {
        return cuda::add_bias(to, y_stride, rows, n, bias, stream);
      });
}

}  // namespace sluice
