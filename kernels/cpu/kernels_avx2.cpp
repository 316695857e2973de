#include "kernels/cpu/isa_tables.hpp"

#if defined(__x86_64__)
#include "kernels/cpu/simd_avx2.hpp"
#include "kernels/cpu/table_impl.hpp"

namespace sluice::kernels {

extern constinit const KernelTable kAvx2Table = make_table<Avx2Simd>();

}  // namespace sluice::kernels
#endif
