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

namespace sluice::kernels {

inline constexpr std::size_t kPackedVectors = kBlockCols / 4;  ///< of 64 bytes, in a block
/// Weights that are worked on before the next tile of rows: about a third of a second level cache.
inline constexpr std::size_t kPackedChunkBytes = 320 * 1024;
/// From so many rows on, narrow weights are decoded first.
inline constexpr std::size_t kDecodeFromRows = 96;
/// Most bytes that a decoded block takes: two vectors of scales, then the numbers.
inline constexpr std::size_t kDecodedBlockBytesMax = 64 * (2 + kPackedVectors);
/// Weights are asked for so many bytes ahead of their use.
inline constexpr std::size_t kPackedPrefetchBytes = 8 * 1024;

template <class S>
struct BlockScales {
  typename S::Flt scale;
  typename S::Flt second;  ///< of the second half, where there is one
  typename S::Flt min;     ///< where there is one
};

// -- how the formats are read: header -> scales, numbers -> vectors of unsigned bytes ----------
// kAdded: what was added to the weights to make them unsigned, as a shift of 128.

/// Eight vectors from four of nibbles.
template <class S>
void unpack_nibbles(const std::byte* quants, typename S::Bytes* w) {
  constexpr std::size_t kHalf = kPackedVectors / 2;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kHalf; ++v) {
    const typename S::Bytes both = S::load(quants + 64 * v);
    w[v] = S::low_nibbles(both);
    w[v + kHalf] = S::high_nibbles(both);
  }
}

template <class S>
void unpack_five_bits(const std::byte* quants, typename S::Bytes* w) {
  unpack_nibbles<S>(quants, w);
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kPackedVectors; ++v)
    w[v] = S::add_where(w[v], quants + 256 + 8 * v, 16);
}

template <class S, bool kHasMin>
struct HalfScales {
  static constexpr std::size_t kHeaderBlocks = kHasMin ? 1 : 2;
  static constexpr bool kMin = kHasMin;
  static constexpr bool kHalves = false;
  static BlockScales<S> scales(const std::byte* header, std::size_t block) {
    BlockScales<S> s;
    s.scale = S::load_f16(header + 32 * block);
    if constexpr (kHasMin) s.min = S::negate(S::load_f16(header + 32));
    return s;
  }
};

template <class S>
struct SuperScales {
  static constexpr std::size_t kHeaderBlocks = 8;
  static constexpr bool kMin = true;
  static constexpr bool kHalves = false;
  static BlockScales<S> scales(const std::byte* header, std::size_t block) {
    const std::byte* small = header + 64 + 32 * block;
    BlockScales<S> s;
    s.scale = S::mul(S::load_f16(header), S::load_u8(small));
    s.min = S::mul(S::load_f16(header + 32), S::load_u8(small + 16));
    return s;
  }
};

template <class S>
struct PackedQ80 : HalfScales<S, false> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ8_0;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 0;
  static constexpr bool kWide = true;  ///< numbers use all eight bits
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kPackedVectors; ++v) w[v] = S::load(quants + 64 * v);
  }
};
template <class S>
struct PackedQ40 : HalfScales<S, false> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ4_0;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 4;  // 8
  static constexpr bool kWide = false;
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_nibbles<S>(quants, w);
  }
};
template <class S>
struct PackedQ41 : HalfScales<S, true> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ4_1;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 32;  // nothing
  static constexpr bool kWide = false;
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_nibbles<S>(quants, w);
  }
};
template <class S>
struct PackedQ50 : HalfScales<S, false> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ5_0;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 3;  // 16
  static constexpr bool kWide = false;
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_five_bits<S>(quants, w);
  }
};
template <class S>
struct PackedQ51 : HalfScales<S, true> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ5_1;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 32;
  static constexpr bool kWide = false;
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_five_bits<S>(quants, w);
  }
};
template <class S>
struct PackedQ4K : SuperScales<S> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ4_K;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 32;
  static constexpr bool kWide = false;
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_nibbles<S>(quants, w);
  }
};
template <class S>
struct PackedQ5K : SuperScales<S> {
  static constexpr PackedFormat kFormat = PackedFormat::kQ5_K;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 32;
  static constexpr bool kWide = false;
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_five_bits<S>(quants, w);
  }
};
template <class S>
struct PackedQ6K {
  static constexpr PackedFormat kFormat = PackedFormat::kQ6_K;
  static constexpr std::size_t kHeaderBytes = packed_shape(kFormat).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kFormat).quant_bytes;
  static constexpr int kAdded = 2;  // 32
  static constexpr bool kWide = false;
  static constexpr std::size_t kHeaderBlocks = 8;
  static constexpr bool kMin = false;
  static constexpr bool kHalves = true;
  static BlockScales<S> scales(const std::byte* header, std::size_t block) {
    const typename S::Flt d = S::load_f16(header);
    BlockScales<S> s;
    s.scale = S::mul(d, S::load_i8(header + 32 + 32 * block));
    s.second = S::mul(d, S::load_i8(header + 32 + 32 * block + 16));
    return s;
  }
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_nibbles<S>(quants, w);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const typename S::Bytes upper = S::load(quants + 256 + 64 * half);
      w[4 * half + 0] = S::template add_upper<0>(w[4 * half + 0], upper);
      w[4 * half + 1] = S::template add_upper<2>(w[4 * half + 1], upper);
      w[4 * half + 2] = S::template add_upper<4>(w[4 * half + 2], upper);
      w[4 * half + 3] = S::template add_upper<6>(w[4 * half + 3], upper);
    }
  }
};

/// What matmul_decoded leaves in its buffer: f32 scales, then bytes with 128 added.
template <class S, bool kHasMin, bool kHasHalves>
struct DecodedWeights {
  static constexpr std::size_t kHeaderBlocks = 1;
  static constexpr bool kMin = kHasMin;
  static constexpr bool kHalves = kHasHalves;
  static constexpr int kAdded = 0;
  static constexpr bool kWide = true;
  static constexpr std::size_t kHeaderBytes = 64 * (1 + (kMin ? 1 : 0) + (kHalves ? 1 : 0));
  static constexpr std::size_t kQuantBytes = 64 * kPackedVectors;
  static constexpr std::size_t kBytes = kHeaderBytes + 64 * kPackedVectors;  ///< of a block
  static BlockScales<S> scales(const std::byte* header, std::size_t) {
    BlockScales<S> s;
    s.scale = S::load_floats(header);
    if constexpr (kMin || kHalves) (kMin ? s.min : s.second) = S::load_floats(header + 64);
    return s;
  }
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    PackedQ80<S>::unpack(quants, w);
  }
};

// -- tiles ------------------------------------------------------------------------------------

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

// -- whole products ---------------------------------------------------------------------------

template <class S, class W>
GroupBlocks packed_group(const PackedOperands& m, std::size_t group) {
  return {m.weights + group * packed_group_bytes(W::kFormat, m.cols), m.cols / kBlockCols};
}

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

template <class S, class W, class D>
void decode_group(const GroupBlocks& group, std::byte* out) {
  constexpr std::size_t kStretch = packed_stretch_bytes(W::kFormat);
  for (std::size_t block = 0; block < group.count; ++block, out += D::kBytes) {
    const std::byte* header = group.at + block / W::kHeaderBlocks * kStretch;
    const std::size_t in = block % W::kHeaderBlocks;
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

/// Weights decoded, some groups at a time.
template <class S, class W, std::size_t X>
void packed_decoded(const PackedOperands& m, std::size_t begin, std::size_t end,
                    std::byte* workspace) {
  using D = DecodedWeights<S, W::kMin, W::kHalves>;
  const std::size_t blocks = m.cols / kBlockCols;
  const std::size_t fit = kPackedChunkBytes / (blocks * D::kBytes);
  const std::size_t chunk = fit == 0 ? 1 : fit;
  const std::size_t groups_end = (end + kGroupRows - 1) / kGroupRows;
  for (std::size_t g = begin / kGroupRows; g < groups_end; g += chunk) {
    const std::size_t stop = g + chunk < groups_end ? g + chunk : groups_end;
    for (std::size_t j = g; j < stop; ++j)
      decode_group<S, W, D>(packed_group<S, W>(m, j), workspace + (j - g) * blocks * D::kBytes);
    for (std::size_t row = 0; row < m.rows; row += X)
      for (std::size_t j = g; j < stop; ++j) {
        const GroupPart<S> part(j, begin, end);
        packed_rows<S, D, X, false>({workspace + (j - g) * blocks * D::kBytes, blocks}, m, row,
                                    row + X < m.rows ? row + X : m.rows, m.y + j * kGroupRows,
                                    part.first, part.last);
      }
  }
}

template <class S, class W>
void packed_format(const PackedOperands& m, std::size_t begin, std::size_t end,
                   [[maybe_unused]] std::byte* workspace) {
  if constexpr (S::kDecodes && W::kFormat != PackedFormat::kQ8_0) {
    if (m.rows >= kDecodeFromRows)
      return packed_decoded<S, W, S::kTileRowsDecoded>(m, begin, end, workspace);
  }
  if constexpr (W::kFormat == PackedFormat::kQ8_0) {
    if (m.rows >= kDecodeFromRows) return packed_direct<S, W, S::kTileRowsDecoded>(m, begin, end);
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
