// Products with f32 weights.
#include "kernels/cuda/matvec_plain.hpp"

namespace sluice::kernels::cuda {

LaunchStatus matvec_f32(const Matvec& operands, std::int32_t rows, Stream stream) {
  return launch_plain<ElementType::kF32>("matvec_f32", operands, rows, stream);
}

}  // namespace sluice::kernels::cuda
