// The tables that kernel_table() chooses from. Constant data: nothing of an instruction set's
// file runs before it was chosen.
#pragma once

#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

extern const KernelTable kScalarTable;
extern const PackedKernels kScalarPacked;
#if defined(__x86_64__)
extern const KernelTable kAvx2Table;
extern const PackedKernels kAvx2Packed;
extern const KernelTable kAvx512Table;
extern const PackedKernels kVnniPacked;
extern const PackedKernels kBf16Packed;
extern const PackedKernels kF16Packed;
#endif

}  // namespace sluice::kernels
