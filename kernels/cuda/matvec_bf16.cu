// Products with bf16 weights.
#include "kernels/cuda/matvec_plain.hpp"

namespace sluice::kernels::cuda {

LaunchStatus matvec_bf16(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_plain<ElementType::kBF16>("matvec_bf16", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
