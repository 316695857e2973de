// KV storage: how elements of K and V are written to the pool and read back as f32.
//
// Reading a position gives the same floats whichever positions are read with it, and writing one
// touches no byte of another. KvLayer has the layouts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/kv_encode_impl.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kLanesMax = 16;

[[maybe_unused]] static constexpr std::size_t padded_head_dim(std::size_t head_dim) {
  return (head_dim + kLanesMax - 1) / kLanesMax * kLanesMax;
}

/// Some positions of one head's K block: `columns` of `block_size`, from the first `offset`.
struct KeyColumns {
  const std::byte* block = nullptr;
  std::size_t block_size = 0;
  std::size_t offset = 0;
  std::size_t columns = 0;
};

[[maybe_unused]] static constexpr std::size_t key_dim_of(const KvLayer& layer) {
  return layer.key_dim != 0 ? layer.key_dim : layer.head_dim;
}

/// The first n lanes; whole vectors take the shorter way.
template <class S>
void store_first(float* dst, typename S::Vec v, std::size_t n) {
  if (n == S::kWidth)
    S::store(dst, v);
  else
    S::store_n(dst, v, n);
}

// -- plain elements ---------------------------------------------------------------------------

template <class S>
typename S::Vec load_plain(KvEncoding encoding, const std::byte* src) {
  if (encoding == KvEncoding::kF16) return S::load_f16(src);
  return encoding == KvEncoding::kBF16 ? S::load_bf16(src) : S::load(src);
}

template <class S>
typename S::Vec load_plain_n(KvEncoding encoding, const std::byte* src, std::size_t n) {
  if (encoding == KvEncoding::kF16) return S::load_f16_n(src, n);
  return encoding == KvEncoding::kBF16 ? S::load_bf16_n(src, n) : S::load_n(src, n);
}

/// n plain elements to f32; fills up to a whole vector with zeros when `pad`.
template <class S>
void decode_plain(KvEncoding encoding, const std::byte* src, std::size_t n, float* dst, bool pad) {
  const std::size_t bytes = plain_bytes(encoding);
  std::size_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth)
    S::store(dst + i, load_plain<S>(encoding, src + i * bytes));
  if (i == n) return;
  const typename S::Vec last = load_plain_n<S>(encoding, src + i * bytes, n - i);
  if (pad)
    S::store(dst + i, last);
  else
    S::store_n(dst + i, last, n - i);
}

// -- keys: a column is a position -------------------------------------------------------------

/// Calls f(column, count, load) for vectors of columns; load(row, element bytes) is the address
/// of kWidth elements of a row, of which `count` are wanted and all may be read.
template <class S, class F>
void for_column_vectors(const KeyColumns& c, const F& f) {
  for (std::size_t p = 0; p < c.columns; p += S::kWidth) {
    const std::size_t count = c.columns - p < S::kWidth ? c.columns - p : S::kWidth;
    const std::size_t in_block = c.block_size - c.offset - p;
    // Reading past the wanted columns is fine inside the row, not behind it.
    alignas(64) std::byte spill[2 * S::kWidth] = {};
    f(p, count, [&](std::size_t row_begin, std::size_t row, std::size_t bytes) {
      const std::byte* at = c.block + row_begin + (row * c.block_size + c.offset + p) * bytes;
      if (in_block >= S::kWidth) return at;
      std::memcpy(spill, at, count * bytes);
      return static_cast<const std::byte*>(spill);
    });
  }
}

/// Groups of 32 elements of a position share an f16 scale. Block: codes, then scales
/// [groups x block_size].
template <class S>
void decode_keys_q8(const KeyColumns& c, std::size_t dim, float* dst) {
  const std::size_t groups = groups_of(dim);
  const std::size_t scales = groups * kKvGroup * c.block_size;
  for_column_vectors<S>(c, [&](std::size_t p, std::size_t count, const auto& row) {
    for (std::size_t g = 0; g < groups; ++g) {
      const typename S::Vec scale = S::load_f16(row(scales, g, 2));
      const std::size_t end = dim < (g + 1) * kKvGroup ? dim : (g + 1) * kKvGroup;
      for (std::size_t d = g * kKvGroup; d < end; ++d)
        store_first<S>(dst + d * kAttentionTile + p, S::mul(S::load_i8(row(0, d, 1)), scale),
                       count);
    }
  });
}

/// Two codes in a byte: row r of a group holds its elements r (low) and 16 + r (high).
template <class S>
void decode_keys_q4(const KeyColumns& c, std::size_t dim, float* dst) {
  constexpr std::size_t kHalf = kKvGroup / 2;
  const std::size_t groups = groups_of(dim);
  const std::size_t scales = groups * kHalf * c.block_size;
  for_column_vectors<S>(c, [&](std::size_t p, std::size_t count, const auto& row) {
    for (std::size_t g = 0; g < groups; ++g) {
      const typename S::Vec scale = S::load_f16(row(scales, g, 2));
      for (std::size_t r = 0; r < kHalf; ++r) {
        typename S::Vec low;
        typename S::Vec high;
        S::load_nibbles(row(0, g * kHalf + r, 1), low, high);
        float* at = dst + (g * kKvGroup + r) * kAttentionTile + p;
        if (g * kKvGroup + r < dim) store_first<S>(at, S::mul(low, scale), count);
        if (g * kKvGroup + kHalf + r < dim)
          store_first<S>(at + kHalf * kAttentionTile, S::mul(high, scale), count);
      }
    }
  });
}

/// Plain keys whose columns are whole vectors, the common case of a long context: the element
/// type is looked at once, not for every vector.
template <class S, KvEncoding kEncoding>
void decode_whole_keys(const KeyColumns& c, std::size_t dim, float* dst) {
  constexpr std::size_t kBytes = kEncoding == KvEncoding::kF32 ? 4 : 2;
  for (std::size_t d = 0; d < dim; ++d) {
    const std::byte* row = c.block + (d * c.block_size + c.offset) * kBytes;
    for (std::size_t p = 0; p < c.columns; p += S::kWidth)
      S::store(dst + d * kAttentionTile + p, load_plain<S>(kEncoding, row + p * kBytes));
  }
}

/// K of some positions of a block to columns of a tile: dst [dim x kAttentionTile].
template <class S>
void decode_keys(KvEncoding encoding, const KeyColumns& c, std::size_t dim, float* dst) {
  if (encoding == KvEncoding::kQ8_0) return decode_keys_q8<S>(c, dim, dst);
  if (encoding == KvEncoding::kQ4_0) return decode_keys_q4<S>(c, dim, dst);
  if (c.columns % S::kWidth == 0) {
    if (encoding == KvEncoding::kF16) return decode_whole_keys<S, KvEncoding::kF16>(c, dim, dst);
    if (encoding == KvEncoding::kBF16) return decode_whole_keys<S, KvEncoding::kBF16>(c, dim, dst);
    return decode_whole_keys<S, KvEncoding::kF32>(c, dim, dst);
  }
  const std::size_t bytes = plain_bytes(encoding);
  for (std::size_t d = 0; d < dim; ++d)
    decode_plain<S>(encoding, c.block + (d * c.block_size + c.offset) * bytes, c.columns,
                    dst + d * kAttentionTile, false);
}

// -- values: a row is a position --------------------------------------------------------------

/// V of one position, [dim], padded with zeros to whole vectors.
template <class S>
void decode_value(KvEncoding encoding, const std::byte* row, std::size_t dim, float* dst) {
  if (!quantised(encoding)) return decode_plain<S>(encoding, row, dim, dst, true);
  const std::size_t group_bytes = row_bytes(encoding, kKvGroup);
  for (std::size_t first = 0; first < dim; first += kKvGroup, row += group_bytes) {
    const typename S::Vec scale = S::broadcast_f16(row);
    for (std::size_t i = 0; i < kKvGroup / 2 && first + i < dim; i += S::kWidth) {
      typename S::Vec low;
      typename S::Vec high;
      if (encoding == KvEncoding::kQ8_0) {
        low = S::load_i8(row + 2 + i);
        high = S::load_i8(row + 2 + kKvGroup / 2 + i);
      } else {
        S::load_nibbles(row + 2 + i, low, high);
      }
      S::store(dst + first + i, S::mul(low, scale));
      if (first + kKvGroup / 2 + i < dim)
        S::store(dst + first + kKvGroup / 2 + i, S::mul(high, scale));
    }
  }
}

// -- tiles ------------------------------------------------------------------------------------

[[maybe_unused]] static inline std::byte* key_block(const KvLayer& layer, std::size_t block,
                                                    std::size_t kv_head) {
  return layer.k + (block * layer.num_kv_heads + kv_head) * layer.block_size *
                       row_bytes(layer.k_encoding, key_dim_of(layer));
}

[[maybe_unused]] static inline std::byte* value_row(const KvLayer& layer, std::size_t block,
                                                    std::size_t kv_head, std::size_t offset) {
  return layer.v + ((block * layer.num_kv_heads + kv_head) * layer.block_size + offset) *
                       row_bytes(layer.v_encoding, layer.head_dim);
}

/// Decodes K and V of positions [begin, end) for one KV head. All of them lie in the tile that
/// starts at position `tile`; only their blocks are looked up. k [key_dim x kAttentionTile],
/// v [kAttentionTile x padded head_dim], both counted from `tile`.
template <class S>
void gather_tile(const KvLayer& layer, const std::int32_t* blocks, std::size_t kv_head,
                 std::size_t tile, std::size_t begin, std::size_t end, float* k_tile,
                 float* v_tile) {
  const std::size_t v_stride = padded_head_dim(layer.head_dim);
  for (std::size_t position = begin; position < end;) {
    const std::size_t offset = position % layer.block_size;
    const std::size_t in_block = layer.block_size - offset;
    const std::size_t n = end - position < in_block ? end - position : in_block;
    const auto block = static_cast<std::size_t>(blocks[position / layer.block_size]);
    const std::size_t in_tile = position - tile;
    decode_keys<S>(layer.k_encoding,
                   {key_block(layer, block, kv_head), layer.block_size, offset, n},
                   key_dim_of(layer), k_tile + in_tile);
    for (std::size_t i = 0; i < n; ++i)
      decode_value<S>(layer.v_encoding, value_row(layer, block, kv_head, offset + i),
                      layer.head_dim, v_tile + (in_tile + i) * v_stride);
    position += n;
  }
}

/// Positions first, first + stride, ..., `count` of them, at most kAttentionTile.
struct StridedPositions {
  std::size_t first = 0;
  std::size_t stride = 1;
  std::size_t count = 0;
};

/// Copies rows of `Bytes` bytes each from columns of several K blocks side by side:
/// dst[row][c] = sources[c][row], [rows x kAttentionTile].
template <class S, std::size_t Bytes>
void collect_columns(const std::byte* const* sources, std::size_t source_stride, std::size_t count,
                     std::size_t rows, std::byte* dst) {
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t c = 0; c < count; ++c)
      std::memcpy(dst + (row * kAttentionTile + c) * Bytes,
                  sources[c] + row * source_stride * Bytes, Bytes);
}

/// The keys at `positions` as one K block of kAttentionTile positions.
template <class S>
void collect_keys(const KvLayer& layer, const std::int32_t* blocks, std::size_t kv_head,
                  const StridedPositions& positions, std::byte* dst) {
  const KvEncoding encoding = layer.k_encoding;
  const std::byte* heads[kAttentionTile];
  std::size_t offsets[kAttentionTile];
  for (std::size_t c = 0; c < positions.count; ++c) {
    const std::size_t position = positions.first + c * positions.stride;
    heads[c] =
        key_block(layer, static_cast<std::size_t>(blocks[position / layer.block_size]), kv_head);
    offsets[c] = position % layer.block_size;
  }
  const std::byte* sources[kAttentionTile];
  const auto sources_at = [&](std::size_t begin, std::size_t bytes) {
    for (std::size_t c = 0; c < positions.count; ++c)
      sources[c] = heads[c] + begin + offsets[c] * bytes;
    return sources;
  };
  const std::size_t dim = key_dim_of(layer);
  if (quantised(encoding)) {
    const std::size_t groups = groups_of(dim);
    const std::size_t rows = groups * code_bytes(encoding);
    collect_columns<S, 1>(sources_at(0, 1), layer.block_size, positions.count, rows, dst);
    collect_columns<S, 2>(sources_at(rows * layer.block_size, 2), layer.block_size, positions.count,
                          groups, dst + rows * kAttentionTile);
  } else if (plain_bytes(encoding) == 2) {
    collect_columns<S, 2>(sources_at(0, 2), layer.block_size, positions.count, dim, dst);
  } else {
    collect_columns<S, 4>(sources_at(0, 4), layer.block_size, positions.count, dim, dst);
  }
}

/// Like gather_tile, for positions with a stride: column and row c of the tile are the c-th of
/// them. `columns` has room for a tile of encoded keys.
template <class S>
void gather_strided(const KvLayer& layer, const std::int32_t* blocks, std::size_t kv_head,
                    const StridedPositions& positions, float* columns, float* k_tile,
                    float* v_tile) {
  auto* encoded = reinterpret_cast<std::byte*>(columns);
  collect_keys<S>(layer, blocks, kv_head, positions, encoded);
  decode_keys<S>(layer.k_encoding, {encoded, kAttentionTile, 0, positions.count}, key_dim_of(layer),
                 k_tile);
  const std::size_t v_stride = padded_head_dim(layer.head_dim);
  for (std::size_t c = 0; c < positions.count; ++c) {
    const std::size_t position = positions.first + c * positions.stride;
    const auto block = static_cast<std::size_t>(blocks[position / layer.block_size]);
    decode_value<S>(layer.v_encoding, value_row(layer, block, kv_head, position % layer.block_size),
                    layer.head_dim, v_tile + c * v_stride);
  }
}

// -- writing ----------------------------------------------------------------------------------

/// Elements of a row that are encoded at a time: whole groups, so the codes are those of the row.
inline constexpr std::size_t kKvPiece = 4 * kKvGroup;

/// Scatters encoded elements of a key, n from `first`, into a column of its K block.
template <class S>
void scatter_key(const KvLayer& layer, const std::byte* piece, std::size_t first, std::size_t n,
                 std::size_t offset, std::byte* block) {
  const std::size_t stride = layer.block_size;
  if (!quantised(layer.k_encoding)) {
    const std::size_t bytes = plain_bytes(layer.k_encoding);
    for (std::size_t d = 0; d < n; ++d)
      std::memcpy(block + ((first + d) * stride + offset) * bytes, piece + d * bytes, bytes);
    return;
  }
  const std::size_t codes = code_bytes(layer.k_encoding);
  std::byte* scales = block + groups_of(key_dim_of(layer)) * codes * stride;
  for (std::size_t g = first / kKvGroup; g < groups_of(first + n); ++g) {
    std::memcpy(scales + (g * stride + offset) * kKvScaleBytes, piece, kKvScaleBytes);
    for (std::size_t r = 0; r < codes; ++r)
      block[(g * codes + r) * stride + offset] = piece[kKvScaleBytes + r];
    piece += kKvScaleBytes + codes;
  }
}

/// Writes one position, see KernelTable::write_kv.
template <class S>
void write_kv(const KvLayer& layer, std::size_t block, std::size_t offset, const float* k,
              const float* v) {
  const std::size_t key_dim = key_dim_of(layer);
  for (std::size_t h = 0; h < layer.num_kv_heads; ++h) {
    std::byte* keys = key_block(layer, block, h);
    for (std::size_t first = 0; first < key_dim; first += kKvPiece) {
      const std::size_t n = key_dim - first < kKvPiece ? key_dim - first : kKvPiece;
      alignas(64) std::byte piece[kKvPiece * sizeof(float)];
      encode_row<S>(layer.k_encoding, k + h * key_dim + first, n, piece);
      scatter_key<S>(layer, piece, first, n, offset, keys);
    }
    encode_row<S>(layer.v_encoding, v + h * layer.head_dim, layer.head_dim,
                  value_row(layer, block, h, offset));
  }
}

}  // namespace sluice::kernels
