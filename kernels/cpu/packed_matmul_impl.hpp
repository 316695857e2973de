// Products of packed weights and quantised activations, written once for every instruction set.
//
// Each output is computed in one way: for every block of 32 columns (or half of one, where a
// scale covers 16) in ascending order
//   sum = fma(float(integer dot product) 2^k, scale, sum), then  sum -= min * (2^k sum of q)
// and at the end  y = sum f. The integer part is exact, so it makes no difference in which
// order or from which copy of the weights it was computed: any number of rows, tile or chunk, and
// any instruction set with a fused multiply-add, gives the same bits.
//
// Few rows: numbers are unpacked into registers and used for all rows at once.
// Many rows: some groups are decoded into a buffer that stays in the second level cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.hpp"
#include "kernels/cpu/packed_tile_impl.hpp"
#include "kernels/cpu/packed_wide_impl.hpp"

namespace sluice::kernels {

/// From so many rows on, narrow weights are decoded first: decoding costs as much as some 14 rows.
inline constexpr std::size_t kDecodeFromRows = 64;

/// Weights as they were packed.
template <class S, class W, std::size_t X>
void packed_direct(const PackedOperands& m, std::size_t begin, std::size_t end) {
  const std::size_t fit = kPackedChunkBytes / packed_group_bytes(W::kFormat, m.cols);
  const std::size_t chunk = m.rows <= X || fit == 0 ? 1 : fit;
  const std::size_t groups_end = (end + kGroupRows - 1) / kGroupRows;
  for (std::size_t g = begin / kGroupRows; g < groups_end; g += chunk)
    for (std::size_t row = 0; row < m.rows; row += X)
      for (std::size_t j = g; j < g + chunk && j < groups_end; ++j) {
        const GroupPart<S> part(j, begin, end);
        const std::size_t row_end = row + X < m.rows ? row + X : m.rows;
        const GroupBlocks group = packed_group<S, W>(m, j);
        float* y = m.y + j * kGroupRows;
        if (row == 0)
          packed_rows<S, W, X, true>(group, m, row, row_end, y, part.first, part.last);
        else
          packed_rows<S, W, X, false>(group, m, row, row_end, y, part.first, part.last);
      }
}

template <class S, class W>
void packed_format(const PackedOperands& m, std::size_t begin, std::size_t end,
                   [[maybe_unused]] std::byte* workspace) {
  if constexpr (S::kDecodes && W::kFormat != PackedFormat::kQ8_0) {
    if (m.rows >= kDecodeFromRows) return packed_decoded<S, W>(m, begin, end, workspace);
  }
  packed_direct<S, W, S::kTileRows>(m, begin, end);
}

template <class S>
void packed_matmul(const PackedOperands& m, std::size_t begin, std::size_t end,
                   std::byte* workspace) {
  switch (m.format) {
    case PackedFormat::kQ8_0:
      return packed_format<S, PackedQ80<S>>(m, begin, end, workspace);
    case PackedFormat::kQ4_0:
      return packed_format<S, PackedQ40<S>>(m, begin, end, workspace);
    case PackedFormat::kQ4_1:
      return packed_format<S, PackedQ41<S>>(m, begin, end, workspace);
    case PackedFormat::kQ5_0:
      return packed_format<S, PackedQ50<S>>(m, begin, end, workspace);
    case PackedFormat::kQ5_1:
      return packed_format<S, PackedQ51<S>>(m, begin, end, workspace);
    case PackedFormat::kQ4_K:
      return packed_format<S, PackedQ4K<S>>(m, begin, end, workspace);
    case PackedFormat::kQ5_K:
      return packed_format<S, PackedQ5K<S>>(m, begin, end, workspace);
    case PackedFormat::kQ6_K:
      return packed_format<S, PackedQ6K<S>>(m, begin, end, workspace);
    case PackedFormat::kBF16:  // packed_kernels_bf16.cpp
    case PackedFormat::kF16:   // packed_kernels_f16_avx512.cpp
    case PackedFormat::kNone:
      return;
  }
}

}  // namespace sluice::kernels
