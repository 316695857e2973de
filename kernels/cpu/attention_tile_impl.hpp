// One tile of attention: some queries on the K and V of kAttentionTile positions, which come from
// where a tile was decoded to, or straight from the pool. Either way the same numbers go through
// the same operations.
#pragma once

#include <cmath>
#include <cstddef>

#include "kernels/cpu/elementwise_impl.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/kv_storage_impl.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kQueriesTogether = 8;

[[maybe_unused]] static constexpr std::size_t workspace_floats(std::size_t head_dim,
                                                               std::size_t queries) {
  return kAttentionTile * (2 * head_dim + kKvGroup + padded_head_dim(head_dim) + kQueriesTogether) +
         queries * (head_dim + 4);
}

/// Elements of a head: of a query and a key, of a value and an output.
struct HeadSizes {
  std::size_t key = 0;
  std::size_t value = 0;
};

/// A tile that was decoded to f32.
template <class S>
struct DecodedTile {
  const float* k;  ///< [key_dim x kAttentionTile]
  const float* v;  ///< [kAttentionTile x padded head_dim]
  std::size_t v_stride;

  typename S::Vec key(std::size_t d, std::size_t p) const {
    return S::load(k + d * kAttentionTile + p);
  }
  typename S::Vec value(std::size_t p, std::size_t d) const {
    return S::load(v + p * v_stride + d);
  }
};

/// The parts of the work space, in floats.
template <class S>
struct AttentionWorkspace {
  float* k;             ///< [head_dim x kAttentionTile]
  float* v;             ///< [kAttentionTile x padded head_dim]
  float* weights;       ///< [kQueriesTogether x kAttentionTile]: scores, then their exponentials
  float* maximum;       ///< [queries]: running maximum of the scores
  float* sum;           ///< [queries]: running sum of the exponentials
  float* span_maximum;  ///< [queries]: the same of a span that is to be merged
  float* span_sum;      ///< [queries]
  float* span_out;      ///< [queries x head_dim]
  float* columns;       ///< a tile of encoded keys, at most [head_dim + kKvGroup x kAttentionTile]

  AttentionWorkspace(float* base, std::size_t head_dim, std::size_t queries)
      : k(base),
        v(k + kAttentionTile * head_dim),
        weights(v + kAttentionTile * padded_head_dim(head_dim)),
        maximum(weights + kAttentionTile * kQueriesTogether),
        sum(maximum + queries),
        span_maximum(sum + queries),
        span_sum(span_maximum + queries),
        span_out(span_sum + queries),
        columns(span_out + queries * head_dim) {
    static_assert(S::kTileQueries <= kQueriesTogether && S::kWidth <= kLanesMax);
  }

  DecodedTile<S> decoded(HeadSizes sizes) const { return {k, v, padded_head_dim(sizes.value)}; }
};

/// Positions [begin, end).
struct PositionRun {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A whole tile in the pool, of plain elements: both block size and head_dim are whole vectors.
template <class S, KvEncoding kEncoding>
struct PoolTile {
  static constexpr std::size_t kBytes = kEncoding == KvEncoding::kF32 ? 4 : 2;
  static constexpr std::size_t kRuns = kAttentionTile / S::kWidth;
  const std::byte* k[kRuns];  ///< element 0 of kWidth neighbouring positions
  const std::byte* v[kRuns];  ///< their first position
  std::size_t k_stride;       ///< bytes from one element of a key to the next
  std::size_t v_stride;       ///< bytes from one position to the next

  PoolTile(const KvLayer& layer, const std::int32_t* blocks, std::size_t kv_head, std::size_t begin)
      : k_stride(layer.block_size * kBytes), v_stride(layer.head_dim * kBytes) {
    for (std::size_t run = 0; run < kRuns; ++run) {
      const std::size_t position = begin + run * S::kWidth;
      const auto block = static_cast<std::size_t>(blocks[position / layer.block_size]);
      const std::size_t offset = position % layer.block_size;
      k[run] = key_block(layer, block, kv_head) + offset * kBytes;
      v[run] = value_row(layer, block, kv_head, offset);
    }
  }
  typename S::Vec key(std::size_t d, std::size_t p) const {
    return load_plain<S>(kEncoding, k[p / S::kWidth] + d * k_stride);
  }
  typename S::Vec value(std::size_t p, std::size_t d) const {
    return load_plain<S>(kEncoding, v[p / S::kWidth] + p % S::kWidth * v_stride + d * kBytes);
  }
};

/// weights[q][p] = scale * (query q . key p), capped when `softcap` is not 0, for all positions
/// of the tile; columns of positions that were not read hold leftovers.
template <class S, std::size_t Q, class Tile>
void tile_scores(const float* const* q, const Tile& tile, std::size_t head_dim,
                 const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  using Vec = typename S::Vec;
  constexpr std::size_t kVectors = S::score_vectors(Q);
  const Vec scale_all = S::set1(a.scale);
  const Vec cap = S::set1(a.softcap);
  for (std::size_t p = 0; p < kAttentionTile; p += kVectors * S::kWidth) {
    Vec acc[Q][kVectors];
    for (std::size_t i = 0; i < Q; ++i)
      for (std::size_t j = 0; j < kVectors; ++j) acc[i][j] = S::zero();
    for (std::size_t d = 0; d < head_dim; ++d) {
      Vec key[kVectors];
#pragma GCC unroll 4
      for (std::size_t j = 0; j < kVectors; ++j) key[j] = tile.key(d, p + j * S::kWidth);
#pragma GCC unroll 8
      for (std::size_t i = 0; i < Q; ++i) {
        const Vec query = S::set1(q[i][d]);
#pragma GCC unroll 4
        for (std::size_t j = 0; j < kVectors; ++j) acc[i][j] = S::fma(query, key[j], acc[i][j]);
      }
    }
    for (std::size_t i = 0; i < Q; ++i)
      for (std::size_t j = 0; j < kVectors; ++j) {
        Vec score = S::mul(acc[i][j], scale_all);
        if (a.softcap != 0.0F) score = soft_cap<S>(score, cap);
        S::store(space.weights + i * kAttentionTile + p + j * S::kWidth, score);
      }
  }
}

/// Turns a run of `count` scores into exponentials relative to the new running maximum. Returns the
/// factor that brings what was accumulated before to the new maximum.
template <class S>
float tile_softmax(float* weights, std::size_t count, float& maximum, float& sum) {
  using Vec = typename S::Vec;
  const Vec lowest = S::set1(-HUGE_VALF);
  Vec largest = lowest;
  const std::size_t whole = count / S::kWidth * S::kWidth;
  for (std::size_t p = 0; p < whole; p += S::kWidth)
    largest = S::max(S::load(weights + p), largest);
  float new_maximum = S::reduce_max(largest);
  for (std::size_t p = whole; p < count; ++p)
    new_maximum = weights[p] > new_maximum ? weights[p] : new_maximum;
  new_maximum = new_maximum > maximum ? new_maximum : maximum;

  const Vec shift = S::set1(new_maximum);
  Vec total = S::zero();
  for (std::size_t p = 0; p < whole; p += S::kWidth) {
    const Vec e = exp<S>(S::sub(S::load(weights + p), shift));
    S::store(weights + p, e);
    total = S::add(total, e);
  }
  if (whole < count) {  // lanes behind the last position count for nothing
    const std::size_t rest = count - whole;
    S::store_n(weights + whole, exp<S>(S::sub(S::load_n(weights + whole, rest), shift)), rest);
    total = S::add(total, S::load_n(weights + whole, rest));
  }
  float correction[S::kWidth];
  S::store(correction, exp<S>(S::set1(maximum - new_maximum)));
  maximum = new_maximum;
  sum = sum * correction[0] + S::reduce_add(total);
  return correction[0];
}

/// out[q] = out[q] * correction[q] + sum over the run's positions (counted within the tile) of
/// weight x V, for D vectors of head elements from `d`; the last vector stores `rest` elements.
template <class S, std::size_t Q, std::size_t D, class Tile>
void tile_values(float* const* out, const Tile& tile, const float* correction, PositionRun run,
                 std::size_t d, std::size_t rest, const AttentionWorkspace<S>& space) {
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
  for (std::size_t p = run.begin; p < run.end; ++p) {
    Vec value[D];
#pragma GCC unroll 4
    for (std::size_t j = 0; j < D; ++j) value[j] = tile.value(p, d + j * S::kWidth);
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

/// The query rows of one attention call. Query i: row row_begin + i / group, head
/// kv_head * group + i % group.
template <class S>
struct QueryRows {
  std::size_t row_begin = 0;
  std::size_t count = 0;
  std::size_t group = 0;       ///< query heads that share the KV head
  std::size_t first_head = 0;  ///< of the group
  float* out = nullptr;        ///< output of query 0; heads of a row follow each other
  std::size_t out_stride = 0;  ///< from one row's outputs to the next

  const float* query(std::size_t i, const AttentionOperands& a, HeadSizes sizes) const {
    return a.q + (row_begin + i / group) * a.stride + (first_head + i % group) * sizes.key;
  }
  float* output(std::size_t i, HeadSizes sizes) const {
    return out + i / group * out_stride + i % group * sizes.value;
  }
  std::size_t position(std::size_t i, const AttentionOperands& a) const {
    return a.first_position + row_begin + i / group;
  }
};

/// What the queries of a call have in common with the tile at hand.
template <class S>
struct TilePlace {
  const QueryRows<S>& rows;
  std::size_t first_query = 0;  ///< of those taken together
  std::size_t begin = 0;        ///< position of the tile's first column
};

/// weights[p] += bias of query i, for all columns of the tile.
template <class S>
void add_tile_bias(float* weights, const TilePlace<S>& place, std::size_t i,
                   const AttentionOperands& a) {
  const auto reach = static_cast<std::ptrdiff_t>(a.bias_reach);
  const QueryRows<S>& rows = place.rows;
  const float* table = a.bias + (rows.first_head + i % rows.group) * (2 * a.bias_reach + 1);
  std::ptrdiff_t distance =
      static_cast<std::ptrdiff_t>(place.begin) - static_cast<std::ptrdiff_t>(rows.position(i, a));
  for (std::size_t p = 0; p < kAttentionTile; ++p, ++distance) {
    const std::ptrdiff_t held = distance < -reach ? -reach : distance > reach ? reach : distance;
    weights[p] += table[held + reach];
  }
}

/// Q queries that see the same run of the tile (counted within it).
template <class S, std::size_t Q, class Tile>
void attend_tile(const float* const* q, float* const* out, const Tile& tile,
                 const TilePlace<S>& place, PositionRun run, HeadSizes sizes,
                 const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  const std::size_t head_dim = sizes.value;
  const std::size_t first_query = place.first_query;
  tile_scores<S, Q>(q, tile, sizes.key, a, space);
  for (std::size_t i = 0; i < Q && a.bias != nullptr; ++i)
    add_tile_bias(space.weights + i * kAttentionTile, place, first_query + i, a);
  float correction[Q];
  for (std::size_t i = 0; i < Q; ++i)
    correction[i] =
        tile_softmax<S>(space.weights + i * kAttentionTile + run.begin, run.end - run.begin,
                        space.maximum[first_query + i], space.sum[first_query + i]);
  constexpr std::size_t kSpan = S::kValueVectors * S::kWidth;
  std::size_t d = 0;
  for (; d + kSpan <= head_dim; d += kSpan)
    tile_values<S, Q, S::kValueVectors>(out, tile, correction, run, d, S::kWidth, space);
  for (; d < head_dim; d += S::kWidth) {
    const std::size_t left = head_dim - d;
    tile_values<S, Q, 1>(out, tile, correction, run, d, left < S::kWidth ? left : S::kWidth, space);
  }
}

/// attend_tile with a run-time number of queries, at most N.
template <class S, std::size_t N, class Tile>
void attend_queries(std::size_t queries, const float* const* q, float* const* out, const Tile& tile,
                    const TilePlace<S>& place, PositionRun run, HeadSizes sizes,
                    const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  if (queries == N) {
    attend_tile<S, N>(q, out, tile, place, run, sizes, a, space);
  } else if constexpr (N > 1) {
    attend_queries<S, N - 1>(queries, q, out, tile, place, run, sizes, a, space);
  }
}

}  // namespace sluice::kernels
