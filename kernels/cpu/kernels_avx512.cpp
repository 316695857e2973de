#include "kernels/cpu/isa_tables.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined pass-through operands of its own intrinsics for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include "kernels/cpu/simd_avx512.hpp"
#include "kernels/cpu/table_impl.hpp"

namespace sluice::kernels {

extern constinit const KernelTable kAvx512Table = make_table<Avx512Simd>();

}  // namespace sluice::kernels
#endif
