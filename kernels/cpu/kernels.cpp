#include "kernels/cpu/kernels.hpp"

#include "kernels/cpu/attention_impl.hpp"
#include "kernels/cpu/isa_tables.hpp"
#include "kernels/cpu/kv_encode_impl.hpp"
#include "kernels/cpu/matmul_impl.hpp"
#include "kernels/cpu/packed_matmul_impl.hpp"

namespace sluice::kernels {

std::size_t matmul_workspace_floats(std::size_t cols) {
  return decode_block_rows(cols) * cols;
}

std::size_t kv_row_bytes(KvEncoding encoding, std::size_t elements) {
  return row_bytes(encoding, elements);
}

std::size_t attention_workspace_floats(std::size_t num_heads, std::size_t num_kv_heads,
                                       std::size_t head_dim) {
  return workspace_floats(head_dim, kAttentionRows * (num_heads / num_kv_heads));
}

SpanRange attention_spans(const AttentionOperands& operands, std::size_t position) {
  const PositionRun recent = seen_from(operands, position, position).runs[1];
  if (recent.end == 0) return {0, 1};
  return {recent.begin / kAttentionSpan, (recent.end - 1) / kAttentionSpan + 1};
}

std::size_t packed_workspace_bytes(std::size_t cols) {
  const std::size_t group = cols / kBlockCols * kDecodedBlockBytesMax;
  return group < kPackedChunkBytes ? kPackedChunkBytes : group;
}

namespace {

KernelTable with_packed(Isa isa, const KernelTable& table, const PackedKernels& packed) {
  KernelTable result = table;
  result.isa = isa;
  result.packed = packed;
#if defined(__x86_64__)
  if (isa == Isa::kAvx512 || isa == Isa::kAvx512Vnni) result.packed_f16 = kF16Packed;
  if (isa == Isa::kAvx512Vnni && __builtin_cpu_supports("avx512bf16") != 0)
    result.packed_bf16 = kBf16Packed;
#endif
  return result;
}

}  // namespace

const KernelTable& kernel_table(Isa isa) {
#if defined(__x86_64__)
  static const KernelTable avx2 = with_packed(Isa::kAvx2, kAvx2Table, kAvx2Packed);
  static const KernelTable avx512 = with_packed(Isa::kAvx512, kAvx512Table, kAvx2Packed);
  static const KernelTable vnni = with_packed(Isa::kAvx512Vnni, kAvx512Table, kVnniPacked);
  if (isa == Isa::kAvx512Vnni) return vnni;
  if (isa == Isa::kAvx512) return avx512;
  if (isa == Isa::kAvx2) return avx2;
#else
  (void)isa;
#endif
  static const KernelTable scalar = with_packed(Isa::kScalar, kScalarTable, kScalarPacked);
  return scalar;
}

}  // namespace sluice::kernels
