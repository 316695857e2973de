#include "kernels/cpu/isa_tables.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined pass-through operands of its own intrinsics for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "kernels/cpu/int_simd_vnni.hpp"
#include "kernels/cpu/packed_matmul_impl.hpp"
#include "kernels/cpu/quantize_row_impl.hpp"

namespace sluice::kernels {

extern constinit const PackedKernels kVnniPacked = {quantize_row<VnniInts>,
                                                    packed_matmul<VnniInts>};

}  // namespace sluice::kernels
#endif
