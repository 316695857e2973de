#include "kernels/cpu/int_simd_scalar.hpp"
#include "kernels/cpu/isa_tables.hpp"
#include "kernels/cpu/packed_matmul_impl.hpp"
#include "kernels/cpu/quantize_row_impl.hpp"

namespace sluice::kernels {

extern constinit const PackedKernels kScalarPacked = {quantize_row<ScalarInts>,
                                                      packed_matmul<ScalarInts>};

}  // namespace sluice::kernels
