// Attention of single rows: the context is cut into parts that run side by side, then folded.
#include "kernels/cuda/attention_part.hpp"

namespace sluice::kernels::cuda {
namespace {

/// Query heads of one KV head that a block takes.
struct HeadChunks {
  int group;      ///< query heads a KV head
  int per_block;  ///< of them in a block
  int chunks;     ///< blocks a KV head
};

/// Where the parts of a row and head lie in the work space: maximum, sum, outputs of each.
__device__ float* part_place(float* workspace, int num_heads, int head_dim, int max_parts, int row,
                             int head, int part) {
  const std::int64_t index = (offset_of(row, num_heads) + head) * max_parts + part;
  return workspace + index * (head_dim + 2);
}

/// Grid: (parts, KV heads * chunks, rows).
template <int kDims, int kQueries>
__global__ void __launch_bounds__(kAttentionThreads, 5)  // blocks: up to 96 registers, no spills
    attention_parts_kernel(Attention attention, KvLayer kv, RowPlaces places, int max_context,
                           HeadChunks chunks, float* workspace) {
  using Work = AttentionWork<kDims, kQueries>;
  SharedMemory shared;
  Work work(shared);
  const int row = block_z();
  const int part = block_x();
  const int begin = part * kAttentionSplit;
  const int position = places.positions[row];
  if (position < begin || position >= max_context) return;  // also padding
  const int kv_head = block_y() / chunks.chunks;
  const int first_in_group = block_y() % chunks.chunks * chunks.per_block;
  const float* const row_q = attention.q + offset_of(row, attention.q_stride);

  work.first_position = position;
  SLUICE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    const int n = warp_index() * kQueries + q;
    const bool used = n < chunks.per_block && first_in_group + n < chunks.group;
    const int head = kv_head * chunks.group + first_in_group + n;
    work.positions[q] = used ? position : -1;
    write_query<kDims>(used ? row_q + head * kv.head_dim : nullptr, kv.head_dim,
                       work.queries + n * kDims * kWarp);
  }
  AttentionState<kDims, kQueries> state;
  const TileSource source{places.tables + offset_of(places.sequences[row], places.table_stride),
                          places.table_stride, kv_head, position};
  attend_part(work, attention, kv, source, begin, state);

  SLUICE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    if (work.positions[q] < 0) continue;
    const int head = kv_head * chunks.group + first_in_group + warp_index() * kQueries + q;
    float* const to = part_place(workspace, attention.num_heads, kv.head_dim,
                                 static_cast<int>(gridDim.x), row, head, part);
    if (lane_index() == 0) {
      to[0] = state.max[q];
      to[1] = state.total[q];
    }
    SLUICE_UNROLL
    for (int e = 0; e < kDims; ++e)
      if (dim_of<kDims>(e) < kv.head_dim) to[2 + dim_of<kDims>(e)] = state.out[q][e];
  }
}

constexpr int kFoldThreads = 128;

/// Grid: (heads / warps of a block, rows). A warp folds the parts of one head.
__global__ void __launch_bounds__(kFoldThreads)
    attention_fold_kernel(Attention attention, int head_dim, const std::int32_t* positions,
                          int max_context, int max_parts, const float* workspace) {
  const int head = block_x() * (kFoldThreads / kWarp) + warp_index();
  if (head >= attention.num_heads) return;
  const int row = block_y();
  const int position = positions[row];
  const bool padding = position < 0 || position >= max_context;
  const int parts = padding ? 0 : position / kAttentionSplit + 1;
  for (int d = lane_index(); d < head_dim; d += kWarp) {
    const bool has_sink = attention.sinks != nullptr;
    float max = has_sink ? attention.sinks[head] : -infinity();
    float total = has_sink ? 1.0F : 0.0F;
    float out = 0.0F;
    for (int part = 0; part < parts; ++part) {
      const float* const from = part_place(const_cast<float*>(workspace), attention.num_heads,
                                           head_dim, max_parts, row, head, part);
      if (from[0] == -infinity()) continue;
      const Fold f = fold(max, from[0]);
      max = f.max;
      total = folded(f, total, from[1]);
      out = folded(f, out, from[2 + d]);
    }
    store_element(attention.out.data, attention.out.type,
                  offset_of(row, attention.out.stride) + head * head_dim + d,
                  padding ? 0.0F : __fdiv_rn(out, total));
  }
}

template <int kDims, int kQueries>
LaunchStatus launch_parts(const Attention& attention, const KvLayer& kv, const RowPlaces& places,
                          int rows, int max_context, float* workspace, Stream stream) {
  using Work = AttentionWork<kDims, kQueries>;
  const int group = attention.num_heads / kv.num_kv_heads;
  const int per_block = group < Work::kAllQueries ? group : Work::kAllQueries;
  const HeadChunks chunks{group, per_block, (group + per_block - 1) / per_block};
  return launch("attention_parts", attention_parts_kernel<kDims, kQueries>,
                grid_of(divide_up(max_context, kAttentionSplit),
                        std::int64_t{kv.num_kv_heads} * chunks.chunks, rows),
                kAttentionThreads, Work::shared_size(), stream, attention, kv, places, max_context,
                chunks, workspace);
}

template <int kDims>
LaunchStatus launch_parts(const Attention& attention, const KvLayer& kv, const RowPlaces& places,
                          int rows, int max_context, float* workspace, Stream stream) {
  const bool few = attention.num_heads / kv.num_kv_heads <= kAttentionWarps;
  return few ? launch_parts<kDims, 1>(attention, kv, places, rows, max_context, workspace, stream)
             : launch_parts<kDims, 2>(attention, kv, places, rows, max_context, workspace, stream);
}

LaunchStatus launch_parts(const Attention& attention, const KvLayer& kv, const RowPlaces& places,
                          int rows, int max_context, float* workspace, Stream stream) {
  const auto with = [&](auto launch_for) {
    return launch_for(attention, kv, places, rows, max_context, workspace, stream);
  };
  if (kv.head_dim <= 32) return with(launch_parts<1>);
  if (kv.head_dim <= 64) return with(launch_parts<2>);
  if (kv.head_dim <= 128) return with(launch_parts<4>);
  return with(launch_parts<8>);
}

}  // namespace

LaunchStatus attention_decode(const Attention& operands, const KvLayer& kv, const RowPlaces& places,
                              std::int32_t rows, std::int32_t max_context, float* workspace,
                              Stream stream) {
  constexpr const char* kName = "attention_decode";
  if (!well_formed(kv) || !well_formed(operands, kv) || !well_formed(places) || rows < 0 ||
      rows > 65535 || max_context < 1 || workspace == nullptr || operands.num_heads > 65535)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  const LaunchStatus parts =
      launch_parts(operands, kv, places, rows, max_context, workspace, stream);
  if (!parts.ok()) return parts;
  return launch("attention_fold", attention_fold_kernel,
                grid_of(divide_up(operands.num_heads, kFoldThreads / kWarp), rows), kFoldThreads, 0,
                stream, operands, kv.head_dim, places.positions, max_context,
                static_cast<int>(divide_up(max_context, kAttentionSplit)), workspace);
}

}  // namespace sluice::kernels::cuda
