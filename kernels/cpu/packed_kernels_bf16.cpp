// Products of packed bf16 weights and activations rounded to bf16, with the instruction that adds
// two products to each f32 lane. Each output takes its columns in ascending order, two at a time,
// whatever else is computed with it.
#include "kernels/cpu/isa_tables.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {
namespace {

constexpr std::size_t kTileRows = 12;
constexpr std::size_t kChunkBytes = 320 * 1024;  // of weights, reused for all rows
constexpr std::size_t kPrefetchBytes = 8 * 1024;

void round_row(const float* x, std::size_t cols, std::byte* out) {
  for (std::size_t k = 0; k < cols; k += 16) {
    const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + k));
    __builtin_memcpy(out + 2 * k, &rounded, sizeof(rounded));
  }
}

/// X rows against one group; the row of a tile by three bases and multiples of the stride.
template <std::size_t X, bool kStreamed>
void tile(const std::byte* weights, std::size_t cols, const std::byte* x, std::size_t stride,
          float* y, std::size_t y_stride, __mmask16 wanted) {
  constexpr std::size_t kBases = (X + 2) / 3;
  const std::byte* base[kBases];
  for (std::size_t i = 0; i < kBases; ++i) base[i] = x + 3 * i * stride;
  __m512 sum[X];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < X; ++i) sum[i] = _mm512_setzero_ps();
  for (std::size_t pair = 0; pair < cols / 2; ++pair) {
    const std::byte* at = weights + pair * 64;
    // One or two rows are quick enough for the processor to read ahead by itself.
    if constexpr (kStreamed && X > 2) _mm_prefetch(at + kPrefetchBytes, _MM_HINT_T1);
    const __m512i bits = _mm512_load_si512(at);
    __m512bh w;
    __builtin_memcpy(&w, &bits, sizeof(w));
#pragma GCC unroll 16
    for (std::size_t i = 0; i < X; ++i) {
      std::int32_t both = 0;
      __builtin_memcpy(&both, base[i / 3] + i % 3 * stride + 4 * pair, sizeof(both));
      const __m512i spread = _mm512_set1_epi32(both);
      __m512bh activation;
      __builtin_memcpy(&activation, &spread, sizeof(activation));
      sum[i] = _mm512_dpbf16_ps(sum[i], w, activation);
    }
  }
  for (std::size_t i = 0; i < X; ++i) _mm512_mask_storeu_ps(y + i * y_stride, wanted, sum[i]);
}

template <std::size_t X, bool kStreamed>
void rows_of_tile(const PackedOperands& m, const std::byte* weights, std::size_t row,
                  std::size_t end, float* y, __mmask16 wanted) {
  const std::size_t stride = prepared_row_bytes(PackedFormat::kBF16, m.cols);
  for (; row + X <= end; row += X)
    tile<X, kStreamed>(weights, m.cols, m.x + row * stride, stride, y + row * m.y_stride,
                       m.y_stride, wanted);
  if constexpr (X > 1)
    if (row < end) rows_of_tile<X - 1, kStreamed>(m, weights, row, end, y, wanted);
}

void matmul_bf16(const PackedOperands& m, std::size_t begin, std::size_t end, std::byte*) {
  const std::size_t group_bytes = packed_group_bytes(PackedFormat::kBF16, m.cols);
  const std::size_t fit = kChunkBytes / group_bytes;
  const std::size_t chunk = m.rows <= kTileRows || fit == 0 ? 1 : fit;
  const std::size_t groups_end = (end + kGroupRows - 1) / kGroupRows;
  for (std::size_t g = begin / kGroupRows; g < groups_end; g += chunk)
    for (std::size_t row = 0; row < m.rows; row += kTileRows)
      for (std::size_t j = g; j < g + chunk && j < groups_end; ++j) {
        const std::size_t first = begin > j * kGroupRows ? begin - j * kGroupRows : 0;
        const std::size_t last = end < (j + 1) * kGroupRows ? end - j * kGroupRows : kGroupRows;
        const auto wanted = static_cast<__mmask16>((1U << last) - (1U << first));
        const std::size_t row_end = row + kTileRows < m.rows ? row + kTileRows : m.rows;
        const std::byte* weights = m.weights + j * group_bytes;
        float* y = m.y + j * kGroupRows;
        if (row == 0)
          rows_of_tile<kTileRows, true>(m, weights, row, row_end, y, wanted);
        else
          rows_of_tile<kTileRows, false>(m, weights, row, row_end, y, wanted);
      }
}

}  // namespace

extern constinit const PackedKernels kBf16Packed = {round_row, matmul_bf16};

}  // namespace sluice::kernels
#endif
