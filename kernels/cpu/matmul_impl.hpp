// Matrix product of activations and weights, written once for every instruction set.
//
// Each output is one dot product: a vector accumulator takes the columns in ascending order, a
// vector at a time, and its lanes are added at the end in a fixed tree. That order is the same
// in every tile shape, and decoded weights are exact in f32 (F16 and BF16 are subsets; Q8_0 is an
// 11-bit scale times an 8-bit integer), so it makes no difference to a result whether weights
// are decoded into registers or into a buffer first.
//
// Few rows (decode): each weight is read once, decoded in registers, used for all rows.
// Many rows (prefill): a block of weight rows is decoded into a buffer that stays in the second
// level cache, and multiplied with tiles of activation rows.
#pragma once

#include <cstddef>

#include "kernels/cpu/kernels.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kWeightTile = 4;                  ///< weight rows of a tile
inline constexpr std::size_t kDecodeBufferFloats = 64 * 1024;  ///< aim for the decoded block
inline constexpr std::size_t kDecodeRowsMax = 32;
/// Streamed weights are asked for so many bytes ahead, into the second level cache: the first has
/// few slots for misses.
inline constexpr std::size_t kPrefetchBytes = 16 * 1024;
inline constexpr int kPrefetchLevel = 2;

/// Weight rows decoded at a time: a multiple of the tile.
[[maybe_unused]] static constexpr std::size_t decode_block_rows(std::size_t cols) {
  const std::size_t fit = kDecodeBufferFloats / (cols == 0 ? 1 : cols);
  const std::size_t clamped = fit < kWeightTile      ? kWeightTile
                              : fit > kDecodeRowsMax ? kDecodeRowsMax
                                                     : fit;
  return clamped / kWeightTile * kWeightTile;
}

/// Weights that are loaded element by element with Load::whole and Load::part.
template <class S, class Load>
struct PlainWeights {
  static constexpr std::size_t kBlock = S::kWidth;  ///< columns that share a scale
  struct Scale {};
  static std::size_t offset(std::size_t k) { return k * Load::kBytes; }
  static Scale scale(const std::byte*, std::size_t) { return {}; }
  static typename S::Vec load(const std::byte* row, std::size_t k, Scale) {
    return Load::whole(row + k * Load::kBytes);
  }
  static typename S::Vec load_n(const std::byte* row, std::size_t k, std::size_t n) {
    return Load::part(row + k * Load::kBytes, n);
  }
};

template <class S>
struct LoadF32 {
  static constexpr std::size_t kBytes = 4;
  static typename S::Vec whole(const std::byte* p) { return S::load(p); }
  static typename S::Vec part(const std::byte* p, std::size_t n) { return S::load_n(p, n); }
};
template <class S>
struct LoadF16 {
  static constexpr std::size_t kBytes = 2;
  static typename S::Vec whole(const std::byte* p) { return S::load_f16(p); }
  static typename S::Vec part(const std::byte* p, std::size_t n) { return S::load_f16_n(p, n); }
};
template <class S>
struct LoadBf16 {
  static constexpr std::size_t kBytes = 2;
  static typename S::Vec whole(const std::byte* p) { return S::load_bf16(p); }
  static typename S::Vec part(const std::byte* p, std::size_t n) { return S::load_bf16_n(p, n); }
};

template <class S>
using F32Weights = PlainWeights<S, LoadF32<S>>;
template <class S>
using F16Weights = PlainWeights<S, LoadF16<S>>;
template <class S>
using Bf16Weights = PlainWeights<S, LoadBf16<S>>;

/// Blocks of 34 bytes: an f16 scale, then 32 signed bytes. Rows are whole blocks.
template <class S>
struct Q80Weights {
  static constexpr std::size_t kBlock = 32;
  static constexpr std::size_t kBlockBytes = 34;
  using Scale = typename S::Vec;
  static std::size_t offset(std::size_t k) { return k / kBlock * kBlockBytes; }
  static Scale scale(const std::byte* row, std::size_t k) {
    return S::broadcast_f16(row + offset(k));
  }
  static typename S::Vec load(const std::byte* row, std::size_t k, Scale s) {
    return S::mul(s, S::load_i8(row + offset(k) + 2 + k % kBlock));
  }
  static typename S::Vec load_n(const std::byte*, std::size_t, std::size_t) { return S::zero(); }
};

/// y[i][j] = x[i] . w[j] for X activation rows and kWeightTile weight rows; stores the first
/// `valid` columns of the tile. `ahead` > 0 says that the weights are streamed from memory: the
/// same columns of a later tile lie so many bytes on and are asked for in advance, since rows
/// are too short for the processor to notice the pattern.
template <class S, class W, std::size_t X, bool kStreamed>
void dot_tile(const std::byte* const* w, [[maybe_unused]] std::size_t ahead, const float* x,
              std::size_t x_stride, std::size_t cols, float* y, std::size_t y_stride,
              std::size_t valid) {
  using Vec = typename S::Vec;
  Vec acc[X][kWeightTile];
  for (std::size_t i = 0; i < X; ++i)
    for (std::size_t j = 0; j < kWeightTile; ++j) acc[i][j] = S::zero();

  std::size_t k = 0;
  for (; k + W::kBlock <= cols; k += W::kBlock) {
    typename W::Scale scale[kWeightTile];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < kWeightTile; ++j) {
      if constexpr (kStreamed) __builtin_prefetch(w[j] + W::offset(k) + ahead, 0, kPrefetchLevel);
      scale[j] = W::scale(w[j], k);
    }
#pragma GCC unroll 4
    for (std::size_t v = 0; v < W::kBlock; v += S::kWidth) {
      Vec weights[kWeightTile];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kWeightTile; ++j) weights[j] = W::load(w[j], k + v, scale[j]);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < X; ++i) {
        const Vec activation = S::load(x + i * x_stride + k + v);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < kWeightTile; ++j)
          acc[i][j] = S::fma(weights[j], activation, acc[i][j]);
      }
    }
  }
  if (k < cols) {  // only plain types, whose block is one vector
    const std::size_t rest = cols - k;
    for (std::size_t i = 0; i < X; ++i) {
      const Vec activation = S::load_n(x + i * x_stride + k, rest);
      for (std::size_t j = 0; j < kWeightTile; ++j)
        acc[i][j] = S::fma(W::load_n(w[j], k, rest), activation, acc[i][j]);
    }
  }
  for (std::size_t i = 0; i < X; ++i) {
    float sums[kWeightTile];
    S::reduce_add4(acc[i], sums);
    for (std::size_t j = 0; j < valid; ++j) y[i * y_stride + j] = sums[j];
  }
}

/// All rows against up to kWeightTile weight rows, in tiles of S::kTileRows and smaller.
template <class S, class W, std::size_t X, bool kStreamed>
void dot_rows(const std::byte* const* w, std::size_t ahead, const MatmulOperands& m,
              std::size_t cols, std::size_t row, std::size_t end, std::size_t column,
              std::size_t valid) {
  for (; row + X <= end; row += X)
    dot_tile<S, W, X, kStreamed>(w, ahead, m.x + row * m.x_stride, m.x_stride, cols,
                                 m.y + row * m.y_stride + column, m.y_stride, valid);
  if constexpr (X > 1) {
    if (row < end) dot_rows<S, W, X - 1, kStreamed>(w, ahead, m, cols, row, end, column, valid);
  }
}

/// Pointers to the tile's weight rows; behind the last one it repeats, unused.
template <class S, std::size_t N>
std::size_t tile_rows(const std::byte* (&w)[N], const std::byte* data, std::size_t row_bytes,
                      std::size_t row, std::size_t end) {
  const std::size_t valid = end - row < N ? end - row : N;
  for (std::size_t j = 0; j < N; ++j) w[j] = data + (row + (j < valid ? j : valid - 1)) * row_bytes;
  return valid;
}

/// Weights as they lie in the file.
template <class S, class W>
void matmul_direct(const WeightMatrix& matrix, const MatmulOperands& m, std::size_t begin,
                   std::size_t end) {
  const std::size_t tile_bytes = kWeightTile * matrix.row_bytes;
  const std::size_t ahead = (kPrefetchBytes + tile_bytes - 1) / tile_bytes * tile_bytes;
  const std::byte* w[kWeightTile];
  for (std::size_t row = begin; row < end; row += kWeightTile) {
    const std::size_t valid = tile_rows<S>(w, matrix.data, matrix.row_bytes, row, end);
    dot_rows<S, W, S::kTileRows, true>(w, ahead, m, matrix.cols, 0, m.rows, row, valid);
  }
}

template <class S, class W>
void decode_row(const std::byte* row, std::size_t cols, float* out) {
  std::size_t k = 0;
  for (; k + W::kBlock <= cols; k += W::kBlock) {
    const typename W::Scale scale = W::scale(row, k);
    for (std::size_t v = 0; v < W::kBlock; v += S::kWidth)
      S::store(out + k + v, W::load(row, k + v, scale));
  }
  if (k < cols) S::store_n(out + k, W::load_n(row, k, cols - k), cols - k);
}

/// Decodes blocks of weight rows with decode(row, out) and multiplies them as f32. Activation
/// rows are the outer loop within a block, so that a tile of them stays in the first level cache.
template <class S, class Decode>
void matmul_decoded(const WeightMatrix& matrix, const MatmulOperands& m, std::size_t begin,
                    std::size_t end, float* workspace, const Decode& decode) {
  const std::size_t block = decode_block_rows(matrix.cols);
  const auto* decoded = reinterpret_cast<const std::byte*>(workspace);
  for (std::size_t first = begin; first < end; first += block) {
    const std::size_t count = end - first < block ? end - first : block;
    for (std::size_t j = 0; j < count; ++j)
      decode(matrix.data + (first + j) * matrix.row_bytes, workspace + j * matrix.cols);
    for (std::size_t row = 0; row < m.rows; row += S::kTileRows) {
      const std::size_t row_end = row + S::kTileRows < m.rows ? row + S::kTileRows : m.rows;
      for (std::size_t j = 0; j < count; j += kWeightTile) {
        const std::byte* w[kWeightTile];
        const std::size_t valid = tile_rows<S>(w, decoded, matrix.cols * sizeof(float), j, count);
        dot_rows<S, F32Weights<S>, S::kTileRows, false>(w, 0, m, matrix.cols, row, row_end,
                                                        first + j, valid);
      }
    }
  }
}

/// One encoding: direct for few rows, through the buffer for many.
template <class S, class W>
void matmul_encoded(const WeightMatrix& matrix, const MatmulOperands& m, std::size_t begin,
                    std::size_t end, float* workspace) {
  if (m.rows <= S::kTileRows) {
    matmul_direct<S, W>(matrix, m, begin, end);
    return;
  }
  matmul_decoded<S>(matrix, m, begin, end, workspace, [&](const std::byte* row, float* out) {
    decode_row<S, W>(row, matrix.cols, out);
  });
}

template <class S>
void matmul(const WeightMatrix& matrix, const MatmulOperands& m, std::size_t begin, std::size_t end,
            float* workspace) {
  switch (matrix.encoding) {
    case WeightEncoding::kF32:
      return matmul_encoded<S, F32Weights<S>>(matrix, m, begin, end, workspace);
    case WeightEncoding::kF16:
      return matmul_encoded<S, F16Weights<S>>(matrix, m, begin, end, workspace);
    case WeightEncoding::kBF16:
      return matmul_encoded<S, Bf16Weights<S>>(matrix, m, begin, end, workspace);
    case WeightEncoding::kQ8_0:
      return matmul_encoded<S, Q80Weights<S>>(matrix, m, begin, end, workspace);
    case WeightEncoding::kOther:
      matmul_decoded<S>(matrix, m, begin, end, workspace, [&](const std::byte* row, float* out) {
        matrix.dequantize(row, out, matrix.cols);
      });
  }
}

}  // namespace sluice::kernels
