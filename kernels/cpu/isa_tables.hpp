// The tables that kernel_table() chooses from. Constant data: nothing of an instruction set's
// file runs before it was chosen.
#pragma once

#include "kernels/cpu/kernels.hpp"

namespace sluice::kernels {

extern const KernelTable kScalarTable;
#if defined(__x86_64__)
extern const KernelTable kAvx2Table;
extern const KernelTable kAvx512Table;
#endif

}  // namespace sluice::kernels
