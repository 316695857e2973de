// Tiles of a packed product: some rows of activations against one or more groups of weights.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_formats_impl.hpp"
#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

/// Weights that are worked on before the next tile of rows: about a third of a second level cache.
inline constexpr std::size_t kPackedChunkBytes = 320 * 1024;
/// Most bytes that a decoded block takes: two vectors of scales, then the numbers.
inline constexpr std::size_t kDecodedBlockBytesMax = 64 * (2 + kPackedVectors);
/// Weights are asked for so many bytes ahead of their use.
inline constexpr std::size_t kPackedPrefetchBytes = 8 * 1024;

/// One group: headers and the blocks they serve, one after the other.
struct GroupBlocks {
  const std::byte* at;
  std::size_t count;  ///< blocks
};

/// The QuantizedBlock of row i of a tile. Four bases and multiples that addresses can express.
template <class S, std::size_t X>
struct TileRows {
  static constexpr std::size_t kBases = (X + 2) / 3;
  const std::byte* base[kBases];
  std::size_t stride;
  TileRows(const std::byte* x, std::size_t row_stride) : stride(row_stride) {
    for (std::size_t i = 0; i < kBases; ++i) base[i] = x + kRowHeaderBytes + 3 * i * row_stride;
  }
  const std::byte* operator[](std::size_t i) const { return base[i / 3] + i % 3 * stride; }
  void next() {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kBases; ++i) base[i] += sizeof(QuantizedBlock);
  }
};

/// What the integer sums start from, so that they end as if nothing had been added to weights.
template <class S, class W, std::size_t kOffset>
typename S::Int first_sum(const std::byte* block) {
  if constexpr (W::kAdded == 32)
    return S::zero();
  else
    return S::template shift_right<W::kAdded>(S::broadcast(block + kOffset));
}

/// Always inlined: a compiler may take the call of a function without effect away.
template <class S, std::size_t kBytes>
[[gnu::always_inline]] inline void prefetch_lines(const std::byte* p) {
  S::prefetch(p);
  if constexpr (kBytes > 64) prefetch_lines<S, kBytes - 64>(p + 64);
}

/// y = x W^T for X rows and one group; writes the outputs [first, last) of the group.
template <class S, class W, std::size_t X, bool kStreamed>
void packed_tile(const GroupBlocks& group, const std::byte* x, std::size_t x_stride, float* y,
                 std::size_t y_stride, std::size_t first, std::size_t last) {
  using Int = typename S::Int;
  typename S::Flt sum[X];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < X; ++i) sum[i] = S::zero_floats();
  TileRows<S, X> rows(x, x_stride);
  const std::byte* header = group.at;
  for (std::size_t left = group.count; left > 0;) {
    const std::byte* quants = header + W::kHeaderBytes;
    const std::size_t together = left < W::kHeaderBlocks ? left : W::kHeaderBlocks;
    left -= together;
    for (std::size_t in = 0; in < together; ++in) {
      // One or two rows are quick enough for the processor to read ahead by itself; more need
      // every single line asked for: the first one missing would be waited for.
      if constexpr (kStreamed && X > 2) {
        constexpr std::size_t kShare = packed_stretch_bytes(W::kFormat) / W::kHeaderBlocks;
        prefetch_lines<S, kShare>(header + in * kShare + kPackedPrefetchBytes);
      }
      typename S::Bytes w[kPackedVectors];
      W::unpack(quants, w);
      const BlockScales<S> scales = W::scales(header, in);
      constexpr std::size_t kEnd = W::kHalves ? kPackedVectors / 2 : kPackedVectors;
      Int acc[X];
#pragma GCC unroll 16
      for (std::size_t i = 0; i < X; ++i)
        acc[i] = first_sum < S, W,
        W::kHalves ? offsetof(QuantizedBlock, half_correction)
                   : offsetof(QuantizedBlock, correction) > (rows[i]);
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kEnd; ++v)
#pragma GCC unroll 16
        for (std::size_t i = 0; i < X; ++i)
          acc[i] = S::template dot<W::kWide>(acc[i], w[v], rows[i] + 4 * v);
#pragma GCC unroll 16
      for (std::size_t i = 0; i < X; ++i)
        sum[i] = S::fma(S::scaled(acc[i], rows[i] + offsetof(QuantizedBlock, exponent)),
                        scales.scale, sum[i]);
      if constexpr (W::kHalves) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < X; ++i)
          acc[i] = S::template shift_right<W::kAdded>(
              S::sub(S::broadcast(rows[i] + offsetof(QuantizedBlock, correction)),
                     S::broadcast(rows[i] + offsetof(QuantizedBlock, half_correction))));
#pragma GCC unroll 8
        for (std::size_t v = kEnd; v < kPackedVectors; ++v)
#pragma GCC unroll 16
          for (std::size_t i = 0; i < X; ++i)
            acc[i] = S::template dot<W::kWide>(acc[i], w[v], rows[i] + 4 * v);
#pragma GCC unroll 16
        for (std::size_t i = 0; i < X; ++i)
          sum[i] = S::fma(S::scaled(acc[i], rows[i] + offsetof(QuantizedBlock, exponent)),
                          scales.second, sum[i]);
      }
      if constexpr (W::kMin)
#pragma GCC unroll 16
        for (std::size_t i = 0; i < X; ++i)
          sum[i] = S::subtract_product(sum[i], scales.min, rows[i] + offsetof(QuantizedBlock, sum));
      rows.next();
      quants += W::kQuantBytes;
    }
    header = quants;
  }
  for (std::size_t i = 0; i < X; ++i)
    S::store_scaled(y + i * y_stride, sum[i], x + i * x_stride, first, last);
}

/// Rows [row, end) in tiles of X and smaller.
template <class S, class W, std::size_t X, bool kStreamed>
void packed_rows(const GroupBlocks& group, const PackedOperands& m, std::size_t row,
                 std::size_t end, float* y, std::size_t first, std::size_t last) {
  const std::size_t stride = quantized_row_bytes(m.cols);
  for (; row + X <= end; row += X)
    packed_tile<S, W, X, kStreamed>(group, m.x + row * stride, stride, y + row * m.y_stride,
                                    m.y_stride, first, last);
  if constexpr (X > 1)
    if (row < end) packed_rows<S, W, X - 1, kStreamed>(group, m, row, end, y, first, last);
}

/// The outputs of a group that lie in [begin, end), relative to its first.
template <class S>
struct GroupPart {
  std::size_t first;
  std::size_t last;
  GroupPart(std::size_t group, std::size_t begin, std::size_t end)
      : first(begin > group * kGroupRows ? begin - group * kGroupRows : 0),
        last(end < (group + 1) * kGroupRows ? end - group * kGroupRows : kGroupRows) {}
};

template <class S, class W>
GroupBlocks packed_group(const PackedOperands& m, std::size_t group) {
  return {m.weights + group * packed_group_bytes(W::kFormat, m.cols), m.cols / kBlockCols};
}

}  // namespace sluice::kernels
