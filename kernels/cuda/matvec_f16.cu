// Products with f16 weights.
#include "kernels/cuda/matvec_plain.hpp"

namespace sluice::kernels::cuda {

LaunchStatus matvec_f16(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_plain<ElementType::kF16>("matvec_f16", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
