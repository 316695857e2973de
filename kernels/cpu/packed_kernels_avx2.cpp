#include "kernels/cpu/isa_tables.hpp"

#if defined(__x86_64__)
#include "kernels/cpu/int_simd_avx2.hpp"
#include "kernels/cpu/packed_matmul_impl.hpp"
#include "kernels/cpu/quantize_row_impl.hpp"

namespace sluice::kernels {

extern constinit const PackedKernels kAvx2Packed = {quantize_row<Avx2Ints>,
                                                    packed_matmul<Avx2Ints>};

}  // namespace sluice::kernels
#endif
