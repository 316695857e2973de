#include "kernels/cpu/isa_tables.hpp"
#include "kernels/cpu/simd_scalar.hpp"
#include "kernels/cpu/table_impl.hpp"

namespace sluice::kernels {

extern constinit const KernelTable kScalarTable = make_table<ScalarSimd>();

}  // namespace sluice::kernels
