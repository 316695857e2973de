// Attention over paged KV, written once for every instruction set.
//
// Positions are taken in tiles of kAttentionTile, counted from position 0 whatever the blocks and
// chunks are. A tile of K and V is decoded to f32 once and used for all query rows of the call; a
// single row takes plain elements straight from the pool.
// Within a tile each score is summed over the head's elements in ascending order, each output
// element over the positions in ascending order; between tiles the running maximum and sum of
// the online softmax carry on. Grouping queries changes none of this.
//
// What a row sees is one run of positions, or two when `keep_first` lies before its window. Each
// run is a step of its own within a tile, and its borders follow from the row's position alone.
//
// With `every`, what is seen before the window is taken first, in tiles of its own that hold
// positions 0, every, 2 * every, ...: 64 positions that are seen, not 64 in a row.
//
// Each span of kAttentionSpan positions starts with a maximum and a sum of its own, and its result
// is merged into that of the spans before it. A sink and what `every` shows belong to span 0. So
// one row's spans may be computed by several threads and give the bits that one thread gives.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "kernels/cpu/attention_tile_impl.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/kv_storage_impl.hpp"

namespace sluice::kernels {

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

/// All queries on the tile `kv`; run_of(position) is what a query there sees, and `tile` which
/// positions it has.
template <class S, class Tile, class RunOf>
void attend_run(const QueryRows<S>& rows, const Tile& kv, PositionRun tile, HeadSizes sizes,
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
      out[together] = rows.output(i + together, sizes);
      ++together;
    }
    const PositionRun within{run.begin - tile.begin, run.end - tile.begin};
    attend_queries<S, S::kTileQueries>(together, q, out, kv, {rows, i, tile.begin}, within, sizes,
                                       a, space);
    i += together;
  }
}

/// What is seen before the windows, in tiles of multiples of `every`.
template <class S>
void attend_strided(const KvLayer& layer, const QueryRows<S>& rows, std::size_t kv_head,
                    HeadSizes sizes, const AttentionOperands& a,
                    const AttentionWorkspace<S>& space) {
  const std::size_t most = strided_seen(a, rows.position(rows.count - 1, a));
  for (std::size_t begin = 0; begin < most; begin += kAttentionTile) {
    const PositionRun tile = clip({begin, begin + kAttentionTile}, {0, most});
    gather_strided<S>(layer, a.blocks, kv_head, {begin * a.every, a.every, tile.end - begin},
                      space.columns, space.k, space.v);
    attend_run<S>(rows, space.decoded(sizes), tile, sizes, a, space, [&](std::size_t position) {
      return PositionRun{0, strided_seen(a, position)};
    });
  }
}

/// Attends to a tile that all queries see as a whole without decoding it first, which pays when
/// they are few. False when the tile is none of that kind.
template <class S>
bool attend_in_pool(const KvLayer& layer, const QueryRows<S>& rows, std::size_t kv_head,
                    PositionRun tile, HeadSizes sizes, const AttentionOperands& a,
                    const AttentionWorkspace<S>& space) {
  const std::size_t first = rows.position(0, a);
  const PositionRun recent = seen_from(a, first, first).runs[1];
  if (rows.count > S::kTileQueries || rows.position(rows.count - 1, a) != first ||
      tile.begin < recent.begin || tile.end > recent.end || layer.block_size % S::kWidth != 0 ||
      sizes.value % S::kWidth != 0 || layer.k_encoding != layer.v_encoding)
    return false;
  const auto all = [&](std::size_t) { return tile; };
  if (layer.k_encoding == KvEncoding::kF16) {
    const PoolTile<S, KvEncoding::kF16> kv(layer, a.blocks, kv_head, tile.begin);
    attend_run<S>(rows, kv, tile, sizes, a, space, all);
    return true;
  }
  if (layer.k_encoding == KvEncoding::kBF16) {
    const PoolTile<S, KvEncoding::kBF16> kv(layer, a.blocks, kv_head, tile.begin);
    attend_run<S>(rows, kv, tile, sizes, a, space, all);
    return true;
  }
  return false;
}

/// The window, the kept positions, or everything, of one span. False when no row sees any of it.
template <class S>
bool attend_span(const KvLayer& layer, const QueryRows<S>& rows, std::size_t kv_head,
                 HeadSizes sizes, const AttentionOperands& a, const AttentionWorkspace<S>& space,
                 std::size_t span) {
  const std::size_t last = a.seen_end != 0 ? a.seen_end - 1 : rows.position(rows.count - 1, a);
  const SeenPositions seen = seen_from(a, rows.position(0, a), last);
  const PositionRun all = clip({0, last + 1}, {span * kAttentionSpan, (span + 1) * kAttentionSpan});
  bool any = false;
  for (std::size_t begin = all.begin; begin < all.end; begin += kAttentionTile) {
    const PositionRun tile{begin, begin + kAttentionTile};
    if (attend_in_pool<S>(layer, rows, kv_head, tile, sizes, a, space)) {
      any = true;
      continue;
    }
    bool read = false;
    for (const PositionRun& whole : seen.runs) {
      const PositionRun run = clip(whole, tile);
      if (run.end == 0) continue;
      gather_tile<S>(layer, a.blocks, kv_head, begin, run.begin, run.end, space.k, space.v);
      read = true;
    }
    if (!read) continue;
    any = true;
    for (std::size_t which = 0; which < 2; ++which)
      attend_run<S>(rows, space.decoded(sizes), tile, sizes, a, space, [&](std::size_t position) {
        return seen_from(a, position, position).runs[which];
      });
  }
  return any;
}

/// What one query has accumulated.
struct QueryState {
  float& maximum;
  float& sum;
  float* out;  ///< [head_dim]
};

/// Adds a later span's state to what comes before it. A sum of 0: nothing was seen. Not inlined,
/// so that it is the same instructions wherever it is called.
template <class S>
[[gnu::noinline]] void merge_state(QueryState into, QueryState span, std::size_t head_dim) {
  using Vec = typename S::Vec;
  if (span.sum == 0.0F) return;
  if (into.sum == 0.0F) {
    into.maximum = span.maximum;
    into.sum = span.sum;
    std::memcpy(into.out, span.out, head_dim * sizeof(float));
    return;
  }
  const float maximum = into.maximum > span.maximum ? into.maximum : span.maximum;
  const Vec before = exp<S>(S::set1(into.maximum - maximum));
  const Vec now = exp<S>(S::set1(span.maximum - maximum));
  const auto merged = [&](Vec x, Vec y) { return S::fma(y, now, S::mul(x, before)); };
  into.maximum = maximum;
  S::store_n(&into.sum, merged(S::set1(into.sum), S::set1(span.sum)), 1);
  for (std::size_t d = 0; d < head_dim; d += S::kWidth) {
    const std::size_t n = head_dim - d < S::kWidth ? head_dim - d : S::kWidth;
    S::store_n(into.out + d, merged(S::load_n(into.out + d, n), S::load_n(span.out + d, n)), n);
  }
}

/// The positions of `spans`, with what was accumulated left as it is: not divided by the sum.
template <class S>
void attend_spans(const KvLayer& layer, const QueryRows<S>& rows, std::size_t kv_head,
                  HeadSizes sizes, const AttentionOperands& a, const AttentionWorkspace<S>& space,
                  SpanRange spans) {
  const auto begin_state = [&](const QueryRows<S>& at, const AttentionWorkspace<S>& state,
                               const float* sinks) {
    for (std::size_t i = 0; i < at.count; ++i) {
      // A sink is where the softmax starts: its exponential counts, and it has no value.
      state.maximum[i] = sinks == nullptr ? -HUGE_VALF : sinks[at.first_head + i % at.group];
      state.sum[i] = sinks == nullptr ? 0.0F : 1.0F;
      std::memset(at.output(i, sizes), 0, sizes.value * sizeof(float));
    }
  };
  const bool first = spans.begin == 0;
  begin_state(rows, space, first ? a.sinks : nullptr);
  bool empty = !first || a.sinks == nullptr;
  if (first) {
    attend_strided<S>(layer, rows, kv_head, sizes, a, space);
    if (attend_span<S>(layer, rows, kv_head, sizes, a, space, 0) || a.every != 0) empty = false;
  }
  QueryRows<S> apart = rows;
  apart.out = space.span_out;
  apart.out_stride = rows.group * sizes.value;
  AttentionWorkspace<S> apart_space = space;
  apart_space.maximum = space.span_maximum;
  apart_space.sum = space.span_sum;
  for (std::size_t span = first ? 1 : spans.begin; span < spans.end; ++span) {
    if (empty) {  // what an empty state would be merged with needs no place of its own
      empty = !attend_span<S>(layer, rows, kv_head, sizes, a, space, span);
      continue;
    }
    begin_state(apart, apart_space, nullptr);
    if (!attend_span<S>(layer, apart, kv_head, sizes, a, apart_space, span)) continue;
    for (std::size_t i = 0; i < rows.count; ++i)
      merge_state<S>({space.maximum[i], space.sum[i], rows.output(i, sizes)},
                     {space.span_maximum[i], space.span_sum[i], apart.output(i, sizes)},
                     sizes.value);
  }
}

/// Of rows [row_begin, row_end), with their outputs in operands.out.
template <class S>
QueryRows<S> query_rows(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
                        std::size_t row_begin, std::size_t row_end) {
  const std::size_t group = a.num_heads / layer.num_kv_heads;
  const std::size_t first_head = kv_head * group;
  float* out = a.out + row_begin * a.stride + first_head * layer.head_dim;
  return {row_begin, (row_end - row_begin) * group, group, first_head, out, a.stride};
}

template <class S>
void attention(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
               std::size_t row_begin, std::size_t row_end, float* workspace) {
  const HeadSizes sizes{key_dim_of(layer), layer.head_dim};
  const QueryRows<S> rows = query_rows<S>(layer, a, kv_head, row_begin, row_end);
  const AttentionWorkspace<S> space(workspace, layer.head_dim, rows.count);
  const std::size_t last = a.seen_end != 0 ? a.seen_end - 1 : rows.position(rows.count - 1, a);
  attend_spans<S>(layer, rows, kv_head, sizes, a, space, {0, last / kAttentionSpan + 1});
  for (std::size_t i = 0; i < rows.count; ++i) {
    float* out = rows.output(i, sizes);
    for (std::size_t d = 0; d < layer.head_dim; ++d) out[d] /= space.sum[i];
  }
}

/// A part: maxima [group], sums [group], outputs [group x head_dim].
template <class S>
void attention_part(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
                    std::size_t row, SpanRange spans, float* part, float* workspace) {
  const HeadSizes sizes{key_dim_of(layer), layer.head_dim};
  QueryRows<S> rows = query_rows<S>(layer, a, kv_head, row, row + 1);
  AttentionWorkspace<S> space(workspace, layer.head_dim, rows.count);
  space.maximum = part;
  space.sum = part + rows.group;
  rows.out = part + 2 * rows.group;
  attend_spans<S>(layer, rows, kv_head, sizes, a, space, spans);
}

template <class S>
void attention_merge(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
                     std::size_t row, float* parts, std::size_t count) {
  const QueryRows<S> rows = query_rows<S>(layer, a, kv_head, row, row + 1);
  const std::size_t group = rows.group;
  const std::size_t head_dim = layer.head_dim;
  const auto state = [&](std::size_t part, std::size_t i) {
    float* base = parts + part * attention_part_floats(group, head_dim);
    return QueryState{base[i], base[group + i], base + 2 * group + i * head_dim};
  };
  for (std::size_t i = 0; i < group; ++i) {
    const QueryState whole = state(0, i);
    for (std::size_t part = 1; part < count; ++part)
      merge_state<S>(whole, state(part, i), head_dim);
    float* out = rows.output(i, {0, head_dim});
    for (std::size_t d = 0; d < head_dim; ++d) out[d] = whole.out[d] / whole.sum;
  }
}

}  // namespace sluice::kernels
