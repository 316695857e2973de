// Packed products with many rows: all of them pass over some groups of weights that stay in the
// second level cache, a tile of rows and groups at a time. Narrow weights are decoded first.
//
// Two groups at once: every activation that is loaded serves both, since loads, not dot products,
// are what a tile of one group waits for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_formats_impl.hpp"
#include "kernels/cpu/packed_matrix.hpp"
#include "kernels/cpu/packed_tile_impl.hpp"

namespace sluice::kernels {

template <class S, class W, class D>
void decode_group(const GroupBlocks& group, std::byte* out) {
  constexpr std::size_t kStretch = packed_stretch_bytes(W::kFormat);
  for (std::size_t block = 0; block < group.count; ++block, out += D::kBytes) {
    const std::byte* header = group.at + block / W::kHeaderBlocks * kStretch;
    const std::size_t in = block % W::kHeaderBlocks;
    prefetch_lines<S, kStretch / W::kHeaderBlocks>(header + in * (kStretch / W::kHeaderBlocks) +
                                                   kPackedPrefetchBytes);
    typename S::Bytes w[kPackedVectors];
    W::unpack(header + W::kHeaderBytes + in * W::kQuantBytes, w);
    const BlockScales<S> scales = W::scales(header, in);
    S::store_floats(out, scales.scale);
    if constexpr (W::kMin) S::store_floats(out + 64, scales.min);
    if constexpr (W::kHalves) S::store_floats(out + 64, scales.second);
    for (std::size_t v = 0; v < kPackedVectors; ++v)
      S::store(out + D::kHeaderBytes + 64 * v,
               S::add_byte(w[v], W::kAdded == 32 ? 128 : 128 - (128 >> W::kAdded)));
  }
}

/// acc[i][g] += dot products of the vectors [kFrom, kTo) of a block, for X rows and G groups.
template <class S, std::size_t kFrom, std::size_t kTo, std::size_t X, std::size_t G>
[[gnu::always_inline]] inline void wide_dots(typename S::Int (&acc)[X][G],
                                             const std::byte* const* quants,
                                             const TileRows<S, X>& rows) {
#pragma GCC unroll 8
  for (std::size_t v = kFrom; v < kTo; ++v) {
    typename S::Bytes w[G];
#pragma GCC unroll 2
    for (std::size_t g = 0; g < G; ++g) w[g] = S::load(quants[g] + 64 * v);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < X; ++i)
#pragma GCC unroll 2
      for (std::size_t g = 0; g < G; ++g)
        acc[i][g] = S::template dot<true>(acc[i][g], w[g], rows[i] + 4 * v);
  }
}

/// sum[i][g] += scale x 2^k acc[i][g], for the group g.
template <class S, std::size_t X, std::size_t G>
[[gnu::always_inline]] inline void add_scaled_dots(typename S::Flt (&sum)[X][G],
                                                   const typename S::Int (&acc)[X][G],
                                                   std::size_t g, typename S::Flt scale,
                                                   const TileRows<S, X>& rows) {
#pragma GCC unroll 8
  for (std::size_t i = 0; i < X; ++i)
    sum[i][g] = S::fma(S::scaled(acc[i][g], rows[i] + offsetof(QuantizedBlock, exponent)), scale,
                       sum[i][g]);
}

/// y = x W^T for X rows and G groups, one behind the other, of which outputs as `parts` says are
/// written. W: DecodedWeights.
template <class S, class W, std::size_t X, std::size_t G>
void wide_tile(const GroupBlocks& groups, std::size_t group_bytes, const std::byte* x,
               std::size_t x_stride, float* y, std::size_t y_stride, const GroupPart<S>* parts) {
  constexpr std::size_t kEnd = W::kHalves ? kPackedVectors / 2 : kPackedVectors;
  typename S::Flt sum[X][G];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < X; ++i)
#pragma GCC unroll 2
    for (std::size_t g = 0; g < G; ++g) sum[i][g] = S::zero_floats();
  TileRows<S, X> rows(x, x_stride);
  const std::byte* header[G];
  for (std::size_t g = 0; g < G; ++g) header[g] = groups.at + g * group_bytes;
  for (std::size_t block = 0; block < groups.count; ++block) {
    const std::byte* quants[G];
    for (std::size_t g = 0; g < G; ++g) quants[g] = header[g] + W::kHeaderBytes;
    typename S::Int acc[X][G];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < X; ++i)
#pragma GCC unroll 2
      for (std::size_t g = 0; g < G; ++g)
        acc[i][g] = S::broadcast(rows[i] + (W::kHalves ? offsetof(QuantizedBlock, half_correction)
                                                       : offsetof(QuantizedBlock, correction)));
    wide_dots<S, 0, kEnd, X, G>(acc, quants, rows);
    BlockScales<S> scales[G];
    for (std::size_t g = 0; g < G; ++g) scales[g] = W::scales(header[g], 0);
#pragma GCC unroll 2
    for (std::size_t g = 0; g < G; ++g)
      add_scaled_dots<S, X, G>(sum, acc, g, scales[g].scale, rows);
    if constexpr (W::kHalves) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < X; ++i)
#pragma GCC unroll 2
        for (std::size_t g = 0; g < G; ++g)
          acc[i][g] = S::sub(S::broadcast(rows[i] + offsetof(QuantizedBlock, correction)),
                             S::broadcast(rows[i] + offsetof(QuantizedBlock, half_correction)));
      wide_dots<S, kEnd, kPackedVectors, X, G>(acc, quants, rows);
#pragma GCC unroll 2
      for (std::size_t g = 0; g < G; ++g)
        add_scaled_dots<S, X, G>(sum, acc, g, scales[g].second, rows);
    }
    if constexpr (W::kMin)
#pragma GCC unroll 2
      for (std::size_t g = 0; g < G; ++g)
#pragma GCC unroll 8
        for (std::size_t i = 0; i < X; ++i)
          sum[i][g] = S::subtract_product(sum[i][g], scales[g].min,
                                          rows[i] + offsetof(QuantizedBlock, sum));
    rows.next();
    for (std::size_t g = 0; g < G; ++g) header[g] += W::kBytes;
  }
  for (std::size_t i = 0; i < X; ++i)
    for (std::size_t g = 0; g < G; ++g)
      S::store_scaled(y + i * y_stride + g * kGroupRows, sum[i][g], x + i * x_stride,
                      parts[g].first, parts[g].last);
}

/// wide_tile with a run-time number of rows, at most X.
template <class S, class W, std::size_t X, std::size_t G>
void wide_rows(std::size_t rows, const GroupBlocks& groups, std::size_t group_bytes,
               const std::byte* x, std::size_t x_stride, float* y, std::size_t y_stride,
               const GroupPart<S>* parts) {
  if (rows == X) {
    wide_tile<S, W, X, G>(groups, group_bytes, x, x_stride, y, y_stride, parts);
  } else if constexpr (X > 1) {
    wide_rows<S, W, X - 1, G>(rows, groups, group_bytes, x, x_stride, y, y_stride, parts);
  }
}

/// All rows against the groups [from, to), which lie at `weights`. The rows are shared out evenly
/// to tiles.
template <class S, class W>
void wide_groups(const PackedOperands& m, const std::byte* weights, std::size_t group_bytes,
                 std::size_t from, std::size_t to, std::size_t begin, std::size_t end) {
  constexpr std::size_t X = S::kTileRowsWide;
  const std::size_t stride = quantized_row_bytes(m.cols);
  std::size_t tiles = (m.rows + X - 1) / X;
  for (std::size_t row = 0; row < m.rows; --tiles) {
    const std::size_t rows = (m.rows - row + tiles - 1) / tiles;
    const std::byte* x = m.x + row * stride;
    for (std::size_t j = from; j < to; j += 2) {
      const GroupBlocks groups{weights + (j - from) * group_bytes, m.cols / kBlockCols};
      const GroupPart<S> parts[2] = {{j, begin, end}, {j + 1, begin, end}};
      float* y = m.y + row * m.y_stride + j * kGroupRows;
      if (j + 1 < to)
        wide_rows<S, W, X, 2>(rows, groups, group_bytes, x, stride, y, m.y_stride, parts);
      else
        wide_rows<S, W, X, 1>(rows, groups, group_bytes, x, stride, y, m.y_stride, parts);
    }
    row += rows;
  }
}

/// Groups that are worked on before the next tile of rows.
[[maybe_unused]] static constexpr std::size_t wide_chunk(std::size_t group_bytes) {
  const std::size_t fit = kPackedChunkBytes / group_bytes;
  return fit < 2 ? 1 : fit / 2 * 2;
}

/// Outputs [begin, end), some groups decoded at a time.
template <class S, class W>
void packed_decoded(const PackedOperands& m, std::size_t begin, std::size_t end,
                    std::byte* workspace) {
  using D = DecodedWeights<S, W::kMin, W::kHalves>;
  const std::size_t group_bytes = m.cols / kBlockCols * D::kBytes;
  const std::size_t chunk = wide_chunk(group_bytes);
  const std::size_t groups_end = (end + kGroupRows - 1) / kGroupRows;
  for (std::size_t g = begin / kGroupRows; g < groups_end; g += chunk) {
    const std::size_t stop = g + chunk < groups_end ? g + chunk : groups_end;
    for (std::size_t j = g; j < stop; ++j)
      decode_group<S, W, D>(packed_group<S, W>(m, j), workspace + (j - g) * group_bytes);
    wide_groups<S, D>(m, workspace, group_bytes, g, stop, begin, end);
  }
}

}  // namespace sluice::kernels
