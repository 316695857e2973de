// Products of packed f16 weights and f32 activations. Weights are widened in registers. Each output
// is the sum of two chains, of the even and of the odd columns in ascending order, whatever else
// is computed with it.
#include "kernels/cpu/isa_tables.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 takes the deliberately undefined pass-through operands of its own intrinsics for a fault.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {
namespace {

constexpr std::size_t kTileRows = 12;
constexpr std::size_t kChunkBytes = 320 * 1024;  // of weights, reused for all rows
constexpr std::size_t kPrefetchBytes = 8 * 1024;

/// Only to rows that do not fall into the same cache set.
void copy_row(const float* x, std::size_t cols, std::byte* out) {
  __builtin_memcpy(out, x, cols * sizeof(float));
}

__m512 spread(const std::byte* p) {
  float value = 0;
  __builtin_memcpy(&value, p, sizeof(value));
  return _mm512_set1_ps(value);
}

/// X rows against one group; the row of a tile by bases and multiples of the stride.
template <std::size_t X, bool kStreamed>
void tile(const std::byte* weights, std::size_t cols, const std::byte* x, std::size_t stride,
          float* y, std::size_t y_stride, __mmask16 wanted) {
  constexpr std::size_t kBases = (X + 2) / 3;
  const std::byte* base[kBases];
  for (std::size_t i = 0; i < kBases; ++i) base[i] = x + 3 * i * stride;
  __m512 even[X];
  __m512 odd[X];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < X; ++i) even[i] = odd[i] = _mm512_setzero_ps();
  for (std::size_t pair = 0; pair < cols / 2; ++pair) {
    const std::byte* at = weights + pair * 64;
    // One or two rows are quick enough for the processor to read ahead by itself.
    if constexpr (kStreamed && X > 2) _mm_prefetch(at + kPrefetchBytes, _MM_HINT_T1);
    const auto* halves = reinterpret_cast<const __m256i*>(at);
    const __m512 first = _mm512_cvtph_ps(_mm256_load_si256(halves));
    const __m512 second = _mm512_cvtph_ps(_mm256_load_si256(halves + 1));
#pragma GCC unroll 16
    for (std::size_t i = 0; i < X; ++i) {
      const std::byte* row = base[i / 3] + i % 3 * stride + 8 * pair;
      even[i] = _mm512_fmadd_ps(first, spread(row), even[i]);
      odd[i] = _mm512_fmadd_ps(second, spread(row + 4), odd[i]);
    }
  }
  for (std::size_t i = 0; i < X; ++i)
    _mm512_mask_storeu_ps(y + i * y_stride, wanted, _mm512_add_ps(even[i], odd[i]));
}

template <std::size_t X, bool kStreamed>
void rows_of_tile(const PackedOperands& m, const std::byte* weights, std::size_t row,
                  std::size_t end, float* y, __mmask16 wanted) {
  const std::size_t stride = prepared_row_bytes(PackedFormat::kF16, m.cols);
  for (; row + X <= end; row += X)
    tile<X, kStreamed>(weights, m.cols, m.x + row * stride, stride, y + row * m.y_stride,
                       m.y_stride, wanted);
  if constexpr (X > 1)
    if (row < end) rows_of_tile<X - 1, kStreamed>(m, weights, row, end, y, wanted);
}

void matmul_f16(const PackedOperands& m, std::size_t begin, std::size_t end, std::byte*) {
  const std::size_t group_bytes = packed_group_bytes(PackedFormat::kF16, m.cols);
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

extern constinit const PackedKernels kF16Packed = {copy_row, matmul_f16};

}  // namespace sluice::kernels
#endif
