#include "kernels/cpu/kernels.hpp"

#include "kernels/cpu/attention_impl.hpp"
#include "kernels/cpu/isa_tables.hpp"
#include "kernels/cpu/matmul_impl.hpp"

namespace sluice::kernels {

std::size_t matmul_workspace_floats(std::size_t cols) {
  return decode_block_rows(cols) * cols;
}

std::size_t kv_element_bytes(KvEncoding encoding) {
  return encoding == KvEncoding::kF16 ? 2 : 4;
}

std::size_t attention_workspace_floats(std::size_t num_heads, std::size_t num_kv_heads,
                                       std::size_t head_dim) {
  return workspace_floats(head_dim, kAttentionRows * (num_heads / num_kv_heads));
}

const KernelTable& kernel_table(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return kAvx512Table;
  if (isa == Isa::kAvx2) return kAvx2Table;
#else
  (void)isa;
#endif
  return kScalarTable;
}

}  // namespace sluice::kernels
