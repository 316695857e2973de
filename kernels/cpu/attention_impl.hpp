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
      out[together] = rows.output(i + together, a, sizes);
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

/// The window, the kept positions, or everything.
template <class S>
void attend_runs(const KvLayer& layer, const QueryRows<S>& rows, std::size_t kv_head,
                 HeadSizes sizes, const AttentionOperands& a, const AttentionWorkspace<S>& space) {
  const std::size_t last = a.seen_end != 0 ? a.seen_end - 1 : rows.position(rows.count - 1, a);
  const SeenPositions seen = seen_from(a, rows.position(0, a), last);
  for (std::size_t begin = 0; begin <= last; begin += kAttentionTile) {
    const PositionRun tile{begin, begin + kAttentionTile};
    if (attend_in_pool<S>(layer, rows, kv_head, tile, sizes, a, space)) continue;
    bool read = false;
    for (const PositionRun& whole : seen.runs) {
      const PositionRun run = clip(whole, tile);
      if (run.end == 0) continue;
      gather_tile<S>(layer, a.blocks, kv_head, begin, run.begin, run.end, space.k, space.v);
      read = true;
    }
    if (!read) continue;
    for (std::size_t which = 0; which < 2; ++which)
      attend_run<S>(rows, space.decoded(sizes), tile, sizes, a, space, [&](std::size_t position) {
        return seen_from(a, position, position).runs[which];
      });
  }
}

template <class S>
void attention(const KvLayer& layer, const AttentionOperands& a, std::size_t kv_head,
               std::size_t row_begin, std::size_t row_end, float* workspace) {
  const std::size_t group = a.num_heads / layer.num_kv_heads;
  const HeadSizes sizes{key_dim_of(layer), layer.head_dim};
  const QueryRows<S> rows{row_begin, (row_end - row_begin) * group, group, kv_head * group};
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
