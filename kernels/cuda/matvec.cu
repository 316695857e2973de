// Checks of a product's operands, and the choice of its kernel.
#include "kernels/cuda/matvec.hpp"

#include "kernels/cuda/weight_blocks.hpp"

namespace sluice::kernels::cuda {

LaunchStatus matvec(const Matvec& operands, std::int32_t rows, Stream stream) {
  constexpr const char* kName = "matvec";
  const Weights& w = operands.weights;
  const bool plain = weight_block(w.type) == 1;
  const bool has_input =
      plain ? operands.x != nullptr && operands.x_stride >= w.cols
            : operands.rounded.codes != nullptr && operands.rounded.scales != nullptr;
  if (!well_formed(w) || !has_input || operands.y == nullptr || operands.y_stride < w.rows ||
      rows < 0 || rows > 65535)
    return bad_shape(kName);
  if (rows == 0 || w.rows == 0) return nothing(kName);
  switch (w.type) {
    case WeightType::kF32:
      return matvec_f32(operands, rows, stream);
    case WeightType::kF16:
      return matvec_f16(operands, rows, stream);
    case WeightType::kBF16:
      return matvec_bf16(operands, rows, stream);
    case WeightType::kQ8_0:
      return matvec_q8_0(operands, rows, stream);
    case WeightType::kQ4_0:
      return matvec_q4_0(operands, rows, stream);
    case WeightType::kQ4_K:
      return matvec_q4_k(operands, rows, stream);
    case WeightType::kQ6_K:
      return matvec_q6_k(operands, rows, stream);
  }
  return bad_shape(kName);
}

}  // namespace sluice::kernels::cuda
