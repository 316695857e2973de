// Attention over paged KV, written once for every instruction set.
//
// Positions are taken in tiles of kAttentionTile, counted from position 0 whatever the blocks and
// chunks are. A tile of K and V is decoded to f32 once and used for all query rows of the call.
// Within a tile each score is summed over the head's elements in ascending order, each output
// element over the positions in ascending order; between tiles the running maximum and sum of
// the online softmax carry on. Grouping queries changes none of this.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/elementwise_impl.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kLanesMax = 16;

[[maybe_unused]] static constexpr std::size_t padded_head_dim(std::size_t head_dim) {
  return (head_dim + kLanesMax - 1) / kLanesMax * kLanesMax;
}

inline constexpr std::size_t kQueriesTogether = 8;

[[maybe_unused]] static constexpr std::size_t workspace_floats(std::size_t head_dim,
                                                               std::size_t queries) {
  return kAttentionTile * (head_dim + padded_head_dim(head_dim) + kQueriesTogether) + 2 * queries;
}

/// The parts of the work space, in floats.
template <class S>
struct AttentionWorkspace {
  float* k;        ///< [head_dim x kAttentionTile]
  float* v;        ///< [kAttentionTile x padded head_dim]
  float* weights;  ///< [kQueriesTogether x kAttentionTile]: scores, then their exponentials
  float* maximum;  ///< [queries]: running maximum of the scores
  float* sum;      ///< [queries]: running sum of the exponentials

  AttentionWorkspace(float* base, std::size_t head_dim, std::size_t queries)
      : k(base),
        v(k + kAttentionTile * head_dim),
        weights(v + kAttentionTile * padded_head_dim(head_dim)),
        maximum(weights + kAttentionTile * kQueriesTogether),
        sum(maximum + queries) {
    static_assert(S::kTileQueries <= kQueriesTogether && S::kWidth <= kLanesMax);
  }
};

/// n elements of KV storage to f32; fills up to a whole vector with zeros when `pad`.
template <class S>
void decode_kv(KvEncoding encoding, const std::byte* src, std::size_t n, float* dst, bool pad) {
  std::size_t i = 0;
  if (encoding == KvEncoding::kF16) {
    for (; i + S::kWidth <= n; i += S::kWidth) S::store(dst + i, S::load_f16(src + 2 * i));
  } else {
    for (; i + S::kWidth <= n; i += S::kWidth) S::store(dst + i, S::load(src + 4 * i));
  }
  if (i == n) return;
  const std::size_t rest = n - i;
  const typename S::Vec last = encoding == KvEncoding::kF16 ? S::load_f16_n(src + 2 * i, rest)
                                                            : S::load_n(src + 4 * i, rest);
  if (pad)
    S::store(dst + i, last);
  else
    S::store_n(dst + i, last, rest);
}

/// Decodes K and V of positions [begin, end), which lie in one tile, for one KV head.
template <class S>
void gather_tile(const KvLayer& layer, const std::int32_t* blocks, std::size_t kv_head,
                 std::size_t begin, std::size_t end, const AttentionWorkspace<S>& space) {
  const std::size_t k_bytes = kv_element_bytes(layer.k_encoding);
  const std::size_t v_bytes = kv_element_bytes(layer.v_encoding);
  const std::size_t v_stride = padded_head_dim(layer.head_dim);
  for (std::size_t position = begin; position < end;) {
    const std::size_t offset = position % layer.block_size;
    const std::size_t in_block = layer.block_size - offset;
    const std::size_t n = end - position < in_block ? end - position : in_block;
    const auto block = static_cast<std::size_t>(blocks[position / layer.block_size]);
    const std::size_t head_start =
        (block * layer.num_kv_heads + kv_head) * layer.head_dim * layer.block_size;
    const std::size_t in_tile = position - begin;

    const std::byte* k = layer.k + (head_start + offset) * k_bytes;
    for (std::size_t d = 0; d < layer.head_dim; ++d)
      decode_kv<S>(layer.k_encoding, k + d * layer.block_size * k_bytes, n,
                   space.k + d * kAttentionTile + in_tile, false);
    const std::byte* v = layer.v + (head_start + offset * layer.head_dim) * v_bytes;
    for (std::size_t i = 0; i < n; ++i)
      decode_kv<S>(layer.v_encoding, v + i * layer.head_dim * v_bytes, layer.head_dim,
                   space.v + (in_tile + i) * v_stride, true);
    position += n;
  }
}

/// weights[q][p] = scale * (query q . key p) for all positions of the tile; columns behind the
/// last position hold leftovers.
template <class S, std::size_t Q>
void tile_scores(const float* const* q, std::size_t head_dim, float scale,
                 const AttentionWorkspace<S>& space) {
  using Vec = typename S::Vec;
  constexpr std::size_t kVectors = S::score_vectors(Q);
  const Vec scale_all = S::set1(scale);
  for (std::size_t p = 0; p < kAttentionTile; p += kVectors * S::kWidth) {
    Vec acc[Q][kVectors];
    for (std::size_t i = 0; i < Q; ++i)
      for (std::size_t j = 0; j < kVectors; ++j) acc[i][j] = S::zero();
    for (std::size_t d = 0; d < head_dim; ++d) {
      Vec key[kVectors];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j)
        key[j] = S::load(space.k + d * kAttentionTile + p + j * S::kWidth);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < Q; ++i) {
        const Vec query = S::set1(q[i][d]);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < kVectors; ++j) acc[i][j] = S::fma(query, key[j], acc[i][j]);
      }
    }
    for (std::size_t i = 0; i < Q; ++i)
      for (std::size_t j = 0; j < kVectors; ++j)
        S::store(space.weights + i * kAttentionTile + p + j * S::kWidth,
                 S::mul(acc[i][j], scale_all));
  }
}

/// Turns one row of scores into exponentials relative to the new running maximum. Returns the
/// factor that brings what was accumulated before to the new maximum.
template <class S>
float tile_softmax(float* weights, std::size_t count, float& maximum, float& sum) {
  using Vec = typename S::Vec;
  const Vec lowest = S::set1(-HUGE_VALF);
  Vec largest = lowest;
  std::size_t whole = count / S::kWidth * S::kWidth;
  for (std::size_t p = 0; p < whole; p += S::kWidth)
    largest = S::max(S::load(weights + p), largest);
  float new_maximum = S::reduce_max(largest);
  for (std::size_t p = whole; p < count; ++p)
    new_maximum = weights[p] > new_maximum ? weights[p] : new_maximum;
  new_maximum = new_maximum > maximum ? new_maximum : maximum;

  const Vec shift = S::set1(new_maximum);
  Vec total = S::zero();
  for (std::size_t p = 0; p < count; p += S::kWidth) {
    Vec e = exp<S>(S::sub(S::load(weights + p), shift));
    if (count - p < S::kWidth) {  // lanes behind the last position count for nothing
      S::store(weights + p, e);
      e = S::load_n(weights + p, count - p);
    }
    S::store(weights + p, e);
    total = S::add(total, e);
  }
  float correction[S::kWidth];
  S::store(correction, exp<S>(S::set1(maximum - new_maximum)));
  maximum = new_maximum;
  sum = sum * correction[0] + S::reduce_add(total);
  return correction[0];
}

/// out[q] = out[q] * correction[q] + sum over the first `count` positions of weight x V, for D
/// vectors of head elements from `d`; the last vector stores `rest` elements.
template <class S, std::size_t Q, std::size_t D>
void tile_values(float* const* out, const float* correction, std::size_t count, std::size_t d,
                 std::size_t rest, std::size_t v_stride, const AttentionWorkspace<S>& space) {
  using Vec = typename S::Vec;
  Vec acc[Q][D];
  for (std::size_t i = 0; i < Q; ++i) {
    const Vec factor = S::set1(correction[i]);
    for (std::size_t j = 0; j < D; ++j) {
      const float* at = out[i] + d + j * S::kWidth;
      const Vec before = j + 1 == D ? S::load_n(at, rest) : S::load(at);
      acc[i][j] = S::mul(before, factor);
    }
  }
  for (std::size_t p = 0; p < count; ++p) {
    Vec value[D];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < D; ++j)
      value[j] = S::load(space.v + p * v_stride + d + j * S::kWidth);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < Q; ++i) {
      const Vec weight = S::set1(space.weights[i * kAttentionTile + p]);
#pragma GCC unroll 4
      for (std::size_t j = 0; j < D; ++j) acc[i][j] = S::fma(weight, value[j], acc[i][j]);
    }
  }
  for (std::size_t i = 0; i < Q; ++i) {
    for (std::size_t j = 0; j < D; ++j) {
      float* at = out[i] + d + j * S::kWidth;
      if (j + 1 == D)
        S::store_n(at, acc[i][j], rest);
      else
        S::store(at, acc[i][j]);
    }
  }
}

/// Q queries that see the same `count` positions of the tile.
template <class S, std::size_t Q>
void attend_tile(const float* const* q, float* const* out, std::size_t first_query,
                 std::size_t count, const KvLayer& layer, float scale,
                 const AttentionWorkspace<S>& space) {
  tile_scores<S, Q>(q, layer.head_dim, scale, space);
  float correction[Q];
  for (std::size_t i = 0; i < Q; ++i)
    correction[i] = tile_softmax<S>(space.weights + i * kAttentionTile, count,
                                    space.maximum[first_query + i], space.sum[first_query + i]);
  const std::size_t v_stride = padded_head_dim(layer.head_dim);
  constexpr std::size_t kSpan = S::kValueVectors * S::kWidth;
  std::size_t d = 0;
  for (; d + kSpan <= layer.head_dim; d += kSpan)
    tile_values<S, Q, S::kValueVectors>(out, correction, count, d, S::kWidth, v_stride, space);
  for (; d < layer.head_dim; d += S::kWidth) {
    const std::size_t left = layer.head_dim - d;
    tile_values<S, Q, 1>(out, correction, count, d, left < S::kWidth ? left : S::kWidth, v_stride,
                         space);
  }
}

/// attend_tile with a run-time number of queries, at most N.
template <class S, std::size_t N>
void attend_queries(std::size_t queries, const float* const* q, float* const* out,
                    std::size_t first_query, std::size_t count, const KvLayer& layer, float scale,
                    const AttentionWorkspace<S>& space) {
  if (queries == N) {
    attend_tile<S, N>(q, out, first_query, count, layer, scale, space);
  } else if constexpr (N > 1) {
    attend_queries<S, N - 1>(queries, q, out, first_query, count, layer, scale, space);
  }
}

template <class S>
void attention(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
               std::size_t row_begin, std::size_t row_end, float* workspace) {
  const std::size_t group = a.num_heads / layer.num_kv_heads;
  const std::size_t num_queries = (row_end - row_begin) * group;
  const AttentionWorkspace<S> space(workspace, layer.head_dim, num_queries);
  // Query i of the call: row row_begin + i / group, head kv_head * group + i % group.
  const auto element = [&](std::size_t i) {
    return (row_begin + i / group) * a.stride + (kv_head * group + i % group) * layer.head_dim;
  };
  for (std::size_t i = 0; i < num_queries; ++i) {
    space.maximum[i] = -HUGE_VALF;
    space.sum[i] = 0.0F;
    std::memset(a.out + element(i), 0, layer.head_dim * sizeof(float));
  }

  const std::size_t positions = a.first_position + row_end;  // seen by the last row
  for (std::size_t tile = 0; tile < positions; tile += kAttentionTile) {
    const std::size_t tile_end =
        tile + kAttentionTile < positions ? tile + kAttentionTile : positions;
    gather_tile<S>(layer, a.blocks, kv_head, tile, tile_end, space);
    // Positions of this tile that query i sees; rows before the tile see none.
    const auto visible = [&](std::size_t i) {
      const std::size_t end = a.first_position + row_begin + i / group + 1;
      return end <= tile ? 0 : (end - tile < kAttentionTile ? end - tile : kAttentionTile);
    };
    std::size_t i = 0;
    while (i < num_queries && visible(i) == 0) ++i;
    while (i < num_queries) {
      const std::size_t count = visible(i);
      const float* q[S::kTileQueries];
      float* out[S::kTileQueries];
      std::size_t together = 0;
      while (together < S::kTileQueries && i + together < num_queries &&
             visible(i + together) == count) {
        q[together] = a.q + element(i + together);
        out[together] = a.out + element(i + together);
        ++together;
      }
      attend_queries<S, S::kTileQueries>(together, q, out, i, count, layer, a.scale, space);
      i += together;
    }
  }
  for (std::size_t i = 0; i < num_queries; ++i) {
    float* out = a.out + element(i);
    for (std::size_t d = 0; d < layer.head_dim; ++d) out[d] /= space.sum[i];
  }
}

template <class S>
void write_kv(const KvLayer& layer, std::size_t block, std::size_t offset, const float* k,
              const float* v) {
  const std::size_t k_bytes = kv_element_bytes(layer.k_encoding);
  const std::size_t v_bytes = kv_element_bytes(layer.v_encoding);
  const std::size_t head_elements = layer.head_dim * layer.block_size;
  const auto store = [](KvEncoding encoding, std::byte* at, const float* x, std::size_t n) {
    if (encoding == KvEncoding::kF16)
      S::store_f16_n(at, S::load_n(x, n), n);
    else
      std::memcpy(at, x, n * sizeof(float));
  };
  for (std::size_t h = 0; h < layer.num_kv_heads; ++h) {
    const std::size_t head_start = (block * layer.num_kv_heads + h) * head_elements;
    const float* k_head = k + h * layer.head_dim;
    for (std::size_t d = 0; d < layer.head_dim; d += S::kWidth) {
      // Rounded a vector at a time, then scattered into the transposed block.
      const std::size_t n = layer.head_dim - d < S::kWidth ? layer.head_dim - d : S::kWidth;
      alignas(64) std::byte rounded[S::kWidth * sizeof(float)];
      store(layer.k_encoding, rounded, k_head + d, n);
      for (std::size_t i = 0; i < n; ++i)
        std::memcpy(layer.k + (head_start + (d + i) * layer.block_size + offset) * k_bytes,
                    rounded + i * k_bytes, k_bytes);
    }
    const float* v_head = v + h * layer.head_dim;
    std::byte* v_out = layer.v + (head_start + offset * layer.head_dim) * v_bytes;
    for (std::size_t d = 0; d < layer.head_dim; d += S::kWidth) {
      const std::size_t n = layer.head_dim - d < S::kWidth ? layer.head_dim - d : S::kWidth;
      store(layer.v_encoding, v_out + d * v_bytes, v_head + d, n);
    }
  }
}

}  // namespace sluice::kernels
