// Attention of the rows of a prompt: a block takes some neighbouring rows and the query heads that
// share a KV head, and goes through the context part by part.
#include "kernels/cuda/attention_part.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kQueriesPerWarp = 4;
constexpr int kQueriesPerBlock = kAttentionWarps * kQueriesPerWarp;
static_assert(prefill_tile_rows(1, 1) == kQueriesPerBlock);

/// Adds a part to what the parts before it gave.
template <int kDims>
__device__ void fold_part(const AttentionState<kDims, kQueriesPerWarp>& part,
                          AttentionState<kDims, kQueriesPerWarp>& all) {
  SLUICE_UNROLL
  for (int q = 0; q < kQueriesPerWarp; ++q) {
    if (part.max[q] == -infinity()) continue;
    const Fold f = fold(all.max[q], part.max[q]);
    all.max[q] = f.max;
    all.total[q] = folded(f, all.total[q], part.total[q]);
    SLUICE_UNROLL
    for (int e = 0; e < kDims; ++e) all.out[q][e] = folded(f, all.out[q][e], part.out[q][e]);
  }
}

/// Query n of a block: row n / heads of the tile, head n % heads of the chunk.
struct TileShape {
  int group;   ///< query heads a KV head
  int heads;   ///< of them in a block
  int chunks;  ///< blocks a KV head
  int rows;    ///< most rows of a tile
};

/// Blocks of a multiprocessor: as many as leave registers enough for no spills.
template <int kDims>
constexpr int kBlocks = kDims <= 4 ? 3 : 2;

/// Grid: (tiles, KV heads * chunks).
template <int kDims>
__global__ void __launch_bounds__(kAttentionThreads, kBlocks<kDims>)
    attention_prefill_kernel(Attention attention, KvLayer kv, RowPlaces places,
                             const PrefillTile* tiles, TileShape shape) {
  using Work = AttentionWork<kDims, kQueriesPerWarp>;
  SharedMemory shared;
  Work work(shared);
  const PrefillTile tile = tiles[block_x()];
  const int rows = tile.num_rows < shape.rows ? tile.num_rows : shape.rows;
  if (rows <= 0) return;
  const int first_position = places.positions[tile.first_row];
  if (first_position < 0) return;
  const int kv_head = block_y() / shape.chunks;
  const int first_in_group = block_y() % shape.chunks * shape.heads;
  work.first_position = first_position;

  int row_of[kQueriesPerWarp];
  int head_of[kQueriesPerWarp];
  AttentionState<kDims, kQueriesPerWarp> all;
  all.clear();
  SLUICE_UNROLL
  for (int q = 0; q < kQueriesPerWarp; ++q) {
    const int n = warp_index() * kQueriesPerWarp + q;
    const int in_group = first_in_group + n % shape.heads;
    const bool used = n / shape.heads < rows && in_group < shape.group;
    row_of[q] = tile.first_row + n / shape.heads;
    head_of[q] = kv_head * shape.group + in_group;
    work.positions[q] = used ? first_position + n / shape.heads : -1;
    write_query<kDims>(
        used ? attention.q + offset_of(row_of[q], attention.q_stride) + head_of[q] * kv.head_dim
             : nullptr,
        kv.head_dim, work.queries + n * kDims * kWarp);
    if (used && attention.sinks != nullptr) {
      all.max[q] = attention.sinks[head_of[q]];
      all.total[q] = 1.0F;
    }
  }
  const TileSource source{
      places.tables + offset_of(places.sequences[tile.first_row], places.table_stride),
      places.table_stride, kv_head, first_position + rows - 1};
  for (int begin = 0; begin <= source.last; begin += kAttentionSplit) {
    if (!range_seen(attention, first_position, begin, kAttentionSplit)) continue;
    AttentionState<kDims, kQueriesPerWarp> part;
    attend_part(work, attention, kv, source, begin, part);
    fold_part(part, all);
  }
  SLUICE_UNROLL
  for (int q = 0; q < kQueriesPerWarp; ++q) {
    if (work.positions[q] < 0) continue;
    const std::int64_t to = offset_of(row_of[q], attention.out.stride) + head_of[q] * kv.head_dim;
    SLUICE_UNROLL
    for (int e = 0; e < kDims; ++e)
      if (dim_of<kDims>(e) < kv.head_dim)
        store_element(attention.out.data, attention.out.type, to + dim_of<kDims>(e),
                      __fdiv_rn(all.out[q][e], all.total[q]));
  }
}

template <int kDims>
LaunchStatus launch_prefill(const Attention& attention, const KvLayer& kv, const RowPlaces& places,
                            const PrefillTile* tiles, int num_tiles, Stream stream) {
  const int group = attention.num_heads / kv.num_kv_heads;
  const int heads = group < kQueriesPerBlock ? group : kQueriesPerBlock;
  const TileShape shape{group, heads, (group + heads - 1) / heads,
                        prefill_tile_rows(attention.num_heads, kv.num_kv_heads)};
  return launch("attention_prefill", attention_prefill_kernel<kDims>,
                grid_of(num_tiles, std::int64_t{kv.num_kv_heads} * shape.chunks), kAttentionThreads,
                AttentionWork<kDims, kQueriesPerWarp>::shared_size(), stream, attention, kv, places,
                tiles, shape);
}

}  // namespace

LaunchStatus attention_prefill(const Attention& operands, const KvLayer& kv,
                               const RowPlaces& places, const PrefillTile* tiles,
                               std::int32_t num_tiles, Stream stream) {
  constexpr const char* kName = "attention_prefill";
  if (!well_formed(kv) || !well_formed(operands, kv) || !well_formed(places) || num_tiles < 0 ||
      operands.num_heads > 65535)
    return bad_shape(kName);
  if (num_tiles == 0) return nothing(kName);
  if (tiles == nullptr) return bad_shape(kName);
  const auto with = [&](auto launch_for) {
    return launch_for(operands, kv, places, tiles, num_tiles, stream);
  };
  if (kv.head_dim <= 32) return with(launch_prefill<1>);
  if (kv.head_dim <= 64) return with(launch_prefill<2>);
  if (kv.head_dim <= 128) return with(launch_prefill<4>);
  return with(launch_prefill<8>);
}

}  // namespace sluice::kernels::cuda
