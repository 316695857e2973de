// Attention over paged KV, written once for every instruction set.
//
// Positions are taken in tiles of kAttentionTile, counted from position 0 whatever the blocks and
// chunks are. A tile of K and V is decoded to f32 once and used for all query rows of the call.
// Within a tile each score is summed over the head's elements in ascending order, each output
// element over the positions in ascending order; between tiles the running maximum and sum of
// the online softmax carry on. Grouping queries changes none of this.
//
// What a row sees is one run of positions, or two when `keep_first` lies before its window. Each
// run is a step of its own within a tile, and its borders follow from the row's position alone.
//
// With `every`, what is seen before the window is taken first, in tiles of its own that hold
// positions 0, every, 2 * every, ...: 64 positions that are seen, not 64 in a row.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/elementwise_impl.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/kv_storage_impl.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kQueriesTogether = 8;

[[maybe_unused]] static constexpr std::size_t workspace_floats(std::size_t head_dim,
                                                               std::size_t queries) {
  return kAttentionTile * (2 * head_dim + kKvGroup + padded_head_dim(head_dim) + kQueriesTogether) +
         2 * queries;
}

/// The parts of the work space, in floats.
template <class S>
struct AttentionWorkspace {
  float* k;        ///< [head_dim x kAttentionTile]
  float* v;        ///< [kAttentionTile x padded head_dim]
  float* weights;  ///< [kQueriesTogether x kAttentionTile]: scores, then their exponentials
  float* maximum;  ///< [queries]: running maximum of the scores
  float* sum;      ///< [queries]: running sum of the exponentials
  float* columns;  ///< a tile of encoded keys, at most [head_dim + kKvGroup x kAttentionTile]

  AttentionWorkspace(float* base, std::size_t head_dim, std::size_t queries)
      : k(base),
        v(k + kAttentionTile * head_dim),
        weights(v + kAttentionTile * padded_head_dim(head_dim)),
        maximum(weights + kAttentionTile * kQueriesTogether),
        sum(maximum + queries),
        columns(sum + queries) {
    static_assert(S::kTileQueries <= kQueriesTogether && S::kWidth <= kLanesMax);
  }
};

/// Positions [begin, end).
struct PositionRun {
  std::size_t begin = 0;
  std::size_t end = 0;
};

[[maybe_unused]] static constexpr PositionRun clip(PositionRun run, PositionRun to) {
  const std::size_t begin = run.begin > to.begin ? run.begin : to.begin;
  const std::size_t end = run.end < to.end ? run.end : to.end;
  return begin < end ? PositionRun{begin, end} : PositionRun{};
}

/// What is seen from the positions first .. last together; `kept` lies before `recent`.
struct SeenPositions {
  PositionRun runs[2];  ///< kept, recent
};

[[maybe_unused]] static constexpr SeenPositions seen_from(const AttentionOperands& a,
                                                          std::size_t first, std::size_t last) {
  if (a.seen_end != 0) return {{{}, {0, a.seen_end}}};
  PositionRun recent{a.window == 0 || first < a.window ? 0 : first + 1 - a.window, last + 1};
  if (a.first_seen != 0) return {{{}, clip(recent, {a.first_seen, last + 1})}};
  const PositionRun kept = clip({0, a.keep_first}, {0, last + 1});
  if (kept.end < recent.begin) return {{kept, recent}};
  recent.begin = 0;
  return {{{}, recent}};
}

/// How many multiples of `every` the last row sees before its window.
[[maybe_unused]] static constexpr std::size_t strided_seen(const AttentionOperands& a,
                                                           std::size_t position) {
  if (a.every == 0 || position < a.window) return 0;
  return (position + 1 - a.window + a.every - 1) / a.every;
}

/// weights[q][p] = scale * (query q . key p), capped when `softcap` is not 0, for all positions
/// of the tile; columns of positions that were not read hold leftovers.
template <class S, std::size_t Q>
void tile_scores(const float* const* q, std::size_t head_dim, const AttentionOperands& a,
                 const AttentionWorkspace<S>& space) {
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
template <class S, std::size_t Q, std::size_t D>
void tile_values(float* const* out, const float* correction, PositionRun run, std::size_t d,
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
  for (std::size_t p = run.begin; p < run.end; ++p) {
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

/// Elements of a head: of a query and a key, of a value and an output.
struct HeadSizes {
  std::size_t key = 0;
  std::size_t value = 0;
};

/// The query rows of one attention call. Query i: row row_begin + i / group, head
/// kv_head * group + i % group.
struct QueryRows {
  std::size_t row_begin = 0;
  std::size_t count = 0;
  std::size_t group = 0;       ///< query heads that share the KV head
  std::size_t first_head = 0;  ///< of the group

  const float* query(std::size_t i, const AttentionOperands& a, HeadSizes sizes) const {
    return a.q + (row_begin + i / group) * a.stride + (first_head + i % group) * sizes.key;
  }
  float* output(std::size_t i, const AttentionOperands& a, HeadSizes sizes) const {
    return a.out + (row_begin + i / group) * a.stride + (first_head + i % group) * sizes.value;
  }
  std::size_t position(std::size_t i, const AttentionOperands& a) const {
    return a.first_position + row_begin + i / group;
  }
};

/// What the queries of a call have in common with the tile at hand.
struct TilePlace {
  const QueryRows& rows;
  std::size_t first_query = 0;  ///< of those taken together
  std::size_t begin = 0;        ///< position of the tile's first column
};

/// weights[p] += bias of query i, for all columns of the tile.
[[maybe_unused]] static void add_tile_bias(float* weights, const TilePlace& place, std::size_t i,
                                           const AttentionOperands& a) {
  const auto reach = static_cast<std::ptrdiff_t>(a.bias_reach);
  const QueryRows& rows = place.rows;
  const float* table = a.bias + (rows.first_head + i % rows.group) * (2 * a.bias_reach + 1);
  std::ptrdiff_t distance =
      static_cast<std::ptrdiff_t>(place.begin) - static_cast<std::ptrdiff_t>(rows.position(i, a));
  for (std::size_t p = 0; p < kAttentionTile; ++p, ++distance) {
    const std::ptrdiff_t held = distance < -reach ? -reach : distance > reach ? reach : distance;
    weights[p] += table[held + reach];
  }
}

/// Q queries that see the same run of the tile (counted within it).
template <class S, std::size_t Q>
void attend_tile(const float* const* q, float* const* out, const TilePlace& place, PositionRun run,
                 HeadSizes sizes, const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  const std::size_t head_dim = sizes.value;
  const std::size_t first_query = place.first_query;
  tile_scores<S, Q>(q, sizes.key, a, space);
  for (std::size_t i = 0; i < Q && a.bias != nullptr; ++i)
    add_tile_bias(space.weights + i * kAttentionTile, place, first_query + i, a);
  float correction[Q];
  for (std::size_t i = 0; i < Q; ++i)
    correction[i] =
        tile_softmax<S>(space.weights + i * kAttentionTile + run.begin, run.end - run.begin,
                        space.maximum[first_query + i], space.sum[first_query + i]);
  const std::size_t v_stride = padded_head_dim(head_dim);
  constexpr std::size_t kSpan = S::kValueVectors * S::kWidth;
  std::size_t d = 0;
  for (; d + kSpan <= head_dim; d += kSpan)
    tile_values<S, Q, S::kValueVectors>(out, correction, run, d, S::kWidth, v_stride, space);
  for (; d < head_dim; d += S::kWidth) {
    const std::size_t left = head_dim - d;
    tile_values<S, Q, 1>(out, correction, run, d, left < S::kWidth ? left : S::kWidth, v_stride,
                         space);
  }
}

/// attend_tile with a run-time number of queries, at most N.
template <class S, std::size_t N>
void attend_queries(std::size_t queries, const float* const* q, float* const* out,
                    const TilePlace& place, PositionRun run, HeadSizes sizes,
                    const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  if (queries == N) {
    attend_tile<S, N>(q, out, place, run, sizes, a, space);
  } else if constexpr (N > 1) {
    attend_queries<S, N - 1>(queries, q, out, place, run, sizes, a, space);
  }
}

/// All queries on one tile whose K and V have been read; run_of(position) is what a query there
/// sees, and `tile` which part of it was read.
template <class S, class RunOf>
void attend_run(const QueryRows& rows, PositionRun tile, HeadSizes sizes,
                const AttentionOperands& a, const AttentionWorkspace<S>& space,
                const RunOf& run_of_position) {
  const auto run_of = [&](std::size_t i) {
    return clip(run_of_position(rows.position(i, a)), tile);
  };
  std::size_t i = 0;
  while (i < rows.count) {
    const PositionRun run = run_of(i);
    if (run.end == 0) {
      ++i;
      continue;
    }
    const float* q[S::kTileQueries];
    float* out[S::kTileQueries];
    std::size_t together = 0;
    while (together < S::kTileQueries && i + together < rows.count) {
      const PositionRun other = run_of(i + together);
      if (other.begin != run.begin || other.end != run.end) break;
      q[together] = rows.query(i + together, a, sizes);
      out[together] = rows.output(i + together, a, sizes);
      ++together;
    }
    const PositionRun within{run.begin - tile.begin, run.end - tile.begin};
    attend_queries<S, S::kTileQueries>(together, q, out, {rows, i, tile.begin}, within, sizes, a,
                                       space);
    i += together;
  }
}

/// What is seen before the windows, in tiles of multiples of `every`.
template <class S>
void attend_strided(const KvLayer& layer, const QueryRows& rows, std::size_t kv_head,
                    HeadSizes sizes, const AttentionOperands& a,
                    const AttentionWorkspace<S>& space) {
  const std::size_t most = strided_seen(a, rows.position(rows.count - 1, a));
  for (std::size_t begin = 0; begin < most; begin += kAttentionTile) {
    const PositionRun tile = clip({begin, begin + kAttentionTile}, {0, most});
    gather_strided<S>(layer, a.blocks, kv_head, {begin * a.every, a.every, tile.end - begin},
                      space.columns, space.k, space.v);
    attend_run<S>(rows, tile, sizes, a, space, [&](std::size_t position) {
      return PositionRun{0, strided_seen(a, position)};
    });
  }
}

/// The window, the kept positions, or everything.
template <class S>
void attend_runs(const KvLayer& layer, const QueryRows& rows, std::size_t kv_head, HeadSizes sizes,
                 const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  const std::size_t last = a.seen_end != 0 ? a.seen_end - 1 : rows.position(rows.count - 1, a);
  const SeenPositions seen = seen_from(a, rows.position(0, a), last);
  for (std::size_t begin = 0; begin <= last; begin += kAttentionTile) {
    const PositionRun tile{begin, begin + kAttentionTile};
    bool read = false;
    for (const PositionRun& whole : seen.runs) {
      const PositionRun run = clip(whole, tile);
      if (run.end == 0) continue;
      gather_tile<S>(layer, a.blocks, kv_head, begin, run.begin, run.end, space.k, space.v);
      read = true;
    }
    if (!read) continue;
    for (const std::size_t which : {0U, 1U})
      attend_run<S>(rows, tile, sizes, a, space, [&](std::size_t position) {
        return seen_from(a, position, position).runs[which];
      });
  }
}

template <class S>
void attention(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
               std::size_t row_begin, std::size_t row_end, float* workspace) {
  const std::size_t group = a.num_heads / layer.num_kv_heads;
  const HeadSizes sizes{key_dim_of(layer), layer.head_dim};
  const QueryRows rows{row_begin, (row_end - row_begin) * group, group, kv_head * group};
  const AttentionWorkspace<S> space(workspace, layer.head_dim, rows.count);
  for (std::size_t i = 0; i < rows.count; ++i) {
    // A sink is where the softmax starts: its exponential counts, and it has no value.
    space.maximum[i] = a.sinks == nullptr ? -HUGE_VALF : a.sinks[rows.first_head + i % group];
    space.sum[i] = a.sinks == nullptr ? 0.0F : 1.0F;
    std::memset(rows.output(i, a, sizes), 0, layer.head_dim * sizeof(float));
  }
  attend_strided<S>(layer, rows, kv_head, sizes, a, space);
  attend_runs<S>(layer, rows, kv_head, sizes, a, space);
  for (std::size_t i = 0; i < rows.count; ++i) {
    float* out = rows.output(i, a, sizes);
    for (std::size_t d = 0; d < layer.head_dim; ++d) out[d] /= space.sum[i];
  }
}

}  // namespace sluice::kernels
