// Attention of some query vectors over one part of the context, shared by decoding and prefill.
//
// Both kernels must give the same bits for the same row, whatever is grouped with it:
// - positions are taken in tiles of 32 and parts of kAttentionSplit, counted from position 0;
// - a score is summed over the elements of a head in ascending order by one lane;
// - a tile's weights are summed as a butterfly, outputs over positions in ascending order, with a
//   running maximum (Milakov and Gimelshein 2018), which starts anew with every part;
// - parts are folded in ascending order (Dao et al. 2023, the split of decoding).
// A tile or a part that a row does not see leaves the row's numbers as they were.
//
// A block of 4 warps loads tiles of K and V together, each once for all its queries; each warp
// computes kQueries of them: a lane has one position of the scores, kDims elements of the outputs.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/kv_storage.hpp"

namespace sluice::kernels::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kAttentionWarps = kAttentionThreads / kWarp;
inline constexpr int kTile = 32;  // positions, one a lane
static_assert(kTile == kWarp && kAttentionSplit % kTile == 0);

/// Distance of positions in a tile: lanes that read the same element of neighbouring positions
/// find it in different banks.
template <int kDims>
constexpr int kTileStride = kDims* kWarp + 4;

/// Element `e` of a lane's kDims elements: neighbouring lanes read neighbouring 16 bytes.
template <int kDims>
__device__ inline int dim_of(int e) {
  if (kDims <= 4) return lane_index() * kDims + e;
  return e / 4 * 4 * kWarp + lane_index() * 4 + e % 4;
}

/// The queries of a block, and what they share.
template <int kDims, int kQueries>
struct AttentionWork {
  static constexpr int kAllQueries = kAttentionWarps * kQueries;

  float* queries;  ///< shared, [kAllQueries x kDims * kWarp], elements behind head_dim are 0
  float* tile;     ///< shared, [kTile x kTileStride]
  float* weights;  ///< shared, [kAllQueries x kTile]

  int positions[kQueries];  ///< of the warp's queries; -1: none
  int first_position;       ///< smallest of the block

  __device__ explicit AttentionWork(SharedMemory& shared)
      : queries(shared.take<float>(kAllQueries * kDims * kWarp)),
        tile(shared.take<float>(kTile * kTileStride<kDims>)),
        weights(shared.take<float>(kAllQueries * kTile)) {}

  static constexpr std::size_t shared_size() {
    return shared_bytes<float>(kAllQueries * kDims * kWarp) +
           shared_bytes<float>(kTile * kTileStride<kDims>) +
           shared_bytes<float>(kAllQueries * kTile);
  }

  __device__ bool busy() const {
    bool any = false;
    SLUICE_UNROLL
    for (int q = 0; q < kQueries; ++q) any = any || positions[q] >= 0;
    return any;
  }
};

/// Running maximum and sum of exponentials, and the outputs, of a warp's queries.
template <int kDims, int kQueries>
struct AttentionState {
  float max[kQueries];
  float total[kQueries];
  float out[kQueries][kDims];

  __device__ void clear() {
    SLUICE_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      max[q] = -infinity();
      total[q] = 0.0F;
      SLUICE_UNROLL
      for (int e = 0; e < kDims; ++e) out[q][e] = 0.0F;
    }
  }
};

/// How two sums of exponentials with different maxima come together.
struct Fold {
  float max;
  float keep;  ///< factor of what was there
  float take;  ///< factor of what comes
};
__device__ inline Fold fold(float max, float part_max) {
  const float larger = part_max > max ? part_max : max;
  return {larger, expf(max - larger), expf(part_max - larger)};
}
__device__ inline float folded(const Fold& f, float there, float part) {
  return multiply_add(part, f.take, multiply(there, f.keep));
}

/// Whether a row at `position` sees `other`.
__device__ inline bool sees(const Attention& attention, int position, int other) {
  return other <= position && (attention.window <= 0 || other > position - attention.window ||
                               other < attention.keep_first);
}

/// Whether any row from `first_position` on sees something of the positions [begin, begin + n).
__device__ inline bool range_seen(const Attention& attention, int first_position, int begin,
                                  int n) {
  return attention.window <= 0 || begin + n - 1 > first_position - attention.window ||
         begin < attention.keep_first;
}

// -- loading --------------------------------------------------------------------------------------

/// Four elements of one position; `i` is a multiple of 4.
template <KvType kType>
__device__ inline float4 load_four(const KvTensor& tensor, unsigned char* head_block, int offset,
                                   int i) {
  const int dim = tensor.head_dim;
  if (kType == KvType::kQ8_0) {
    const int codes = *reinterpret_cast<const int*>(kv_codes(tensor, head_block, offset) + i);
    const float scale = half_to_float(kv_scales(tensor, head_block, offset)[i / kKvGroup]);
    const auto code = [&](int byte) {
      return multiply(scale, static_cast<float>(static_cast<std::int8_t>(codes >> (8 * byte))));
    };
    return make_float4(code(0), code(1), code(2), code(3));
  }
  const ElementType type = plain_type(kType);
  const int first = offset * dim + i;
  if (dim % 4 != 0) {
    const auto element = [&](int e) {
      return i + e < dim ? load_element(head_block, type, first + e) : 0.0F;
    };
    return make_float4(element(0), element(1), element(2), element(3));
  }
  if (kType == KvType::kF32)
    return *reinterpret_cast<const float4*>(reinterpret_cast<const float*>(head_block) + first);
  const uint2 bits =
      *reinterpret_cast<const uint2*>(reinterpret_cast<const std::uint16_t*>(head_block) + first);
  const auto element = [&](unsigned word, int shift) {
    const auto half = static_cast<std::uint16_t>((word >> shift) & 0xFFFFU);
    return type == ElementType::kF16 ? half_to_float(half) : bfloat16_to_float(half);
  };
  return make_float4(element(bits.x, 0), element(bits.x, 16), element(bits.y, 0),
                     element(bits.y, 16));
}

/// Where a tile comes from.
struct TileSource {
  const std::int32_t* table;
  int table_blocks;
  int kv_head;
  int last;  ///< positions behind it become 0, like those without a block
};

/// Loads positions [begin, begin + kTile) as f32. A warp loads every fourth position, a few at a
/// time so that their reads overlap.
template <int kDims, KvType kType>
__device__ void load_tile(const KvTensor& tensor, const TileSource& source, int begin,
                          float* tile) {
  constexpr int kAtOnce = 4;
  for (int first = warp_index(); first < kTile; first += kAtOnce * kAttentionWarps) {
    unsigned char* head_blocks[kAtOnce];
    int offsets[kAtOnce];
    SLUICE_UNROLL
    for (int n = 0; n < kAtOnce; ++n) {
      const int position = begin + first + n * kAttentionWarps;
      const int entry = position / tensor.block_size;
      const bool there = position <= source.last && entry < source.table_blocks;
      const int block = there ? source.table[entry] : -1;
      offsets[n] = position - entry * tensor.block_size;
      head_blocks[n] = block >= 0 ? kv_head_block(tensor, block, source.kv_head) : nullptr;
    }
    float* const to = tile + first * kTileStride<kDims>;
    for (int i = 4 * lane_index(); i < tensor.head_dim; i += 4 * kWarp) {
      float4 values[kAtOnce];
      SLUICE_UNROLL
      for (int n = 0; n < kAtOnce; ++n)
        values[n] = head_blocks[n] != nullptr
                        ? load_four<kType>(tensor, head_blocks[n], offsets[n], i)
                        : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
      SLUICE_UNROLL
      for (int n = 0; n < kAtOnce; ++n)
        *reinterpret_cast<float4*>(to + n * kAttentionWarps * kTileStride<kDims> + i) = values[n];
    }
  }
}

template <int kDims>
__device__ void load_tile(const KvTensor& tensor, const TileSource& source, int begin,
                          float* tile) {
  switch (tensor.type) {
    case KvType::kF32:
      return load_tile<kDims, KvType::kF32>(tensor, source, begin, tile);
    case KvType::kF16:
      return load_tile<kDims, KvType::kF16>(tensor, source, begin, tile);
    case KvType::kBF16:
      return load_tile<kDims, KvType::kBF16>(tensor, source, begin, tile);
    case KvType::kQ8_0:
      return load_tile<kDims, KvType::kQ8_0>(tensor, source, begin, tile);
  }
}

/// A lane's elements of one position.
template <int kDims>
__device__ void load_dims(const float* position, float* out) {
  if (kDims % 4 == 0) {
    SLUICE_UNROLL
    for (int e = 0; e < kDims; e += 4) {
      const float4 four = *reinterpret_cast<const float4*>(position + dim_of<kDims>(e));
      out[e] = four.x;
      out[e + 1] = four.y;
      out[e + 2] = four.z;
      out[e + 3] = four.w;
    }
  } else {
    SLUICE_UNROLL
    for (int e = 0; e < kDims; ++e) out[e] = position[dim_of<kDims>(e)];
  }
}

// -- one tile -------------------------------------------------------------------------------------

/// scores[q] = query q . the lane's position.
template <int kDims, int kQueries>
__device__ void tile_scores(const AttentionWork<kDims, kQueries>& work, int head_dim,
                            float* scores) {
  const float* const key = work.tile + lane_index() * kTileStride<kDims>;
  const float* const queries = work.queries + warp_index() * kQueries * kDims * kWarp;
  SLUICE_UNROLL
  for (int q = 0; q < kQueries; ++q) scores[q] = 0.0F;
  for (int i = 0; i < head_dim; i += 4) {
    const float4 k = *reinterpret_cast<const float4*>(key + i);
    SLUICE_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      const float4 x = *reinterpret_cast<const float4*>(queries + q * kDims * kWarp + i);
      float score = multiply_add(x.x, k.x, scores[q]);
      score = multiply_add(x.y, k.y, score);
      score = multiply_add(x.z, k.z, score);
      scores[q] = multiply_add(x.w, k.w, score);
    }
  }
}

/// Scores of positions begin + lane become weights; outputs and sums are scaled to the new maximum.
template <int kDims, int kQueries>
__device__ void tile_weights(const AttentionWork<kDims, kQueries>& work, const Attention& attention,
                             int begin, const float* scores,
                             AttentionState<kDims, kQueries>& state) {
  SLUICE_UNROLL
  for (int q = 0; q < kQueries; ++q) {
    float score = multiply(scores[q], attention.scale);
    if (attention.softcap != 0.0F)
      score = multiply(attention.softcap, tanhf(__fdiv_rn(score, attention.softcap)));
    if (!sees(attention, work.positions[q], begin + lane_index())) score = -infinity();
    const float tile_max = warp_max(score);
    const float max = tile_max > state.max[q] ? tile_max : state.max[q];
    const bool nothing = max == -infinity();
    const float weight = nothing ? 0.0F : expf(score - max);
    const float keep = nothing ? 1.0F : expf(state.max[q] - max);
    state.max[q] = max;
    state.total[q] = multiply_add(state.total[q], keep, warp_sum(weight));
    SLUICE_UNROLL
    for (int e = 0; e < kDims; ++e) state.out[q][e] = multiply(state.out[q][e], keep);
    work.weights[(warp_index() * kQueries + q) * kTile + lane_index()] = weight;
  }
}

/// Adds weight x value of every position of the tile.
template <int kDims, int kQueries>
__device__ void tile_outputs(const AttentionWork<kDims, kQueries>& work,
                             AttentionState<kDims, kQueries>& state) {
  const float* const weights = work.weights + warp_index() * kQueries * kTile;
  for (int j = 0; j < kTile; j += 4) {
    float values[4][kDims];
    SLUICE_UNROLL
    for (int i = 0; i < 4; ++i)
      load_dims<kDims>(work.tile + (j + i) * kTileStride<kDims>, values[i]);
    SLUICE_UNROLL
    for (int q = 0; q < kQueries; ++q) {
      const float4 four = *reinterpret_cast<const float4*>(weights + q * kTile + j);
      SLUICE_UNROLL
      for (int e = 0; e < kDims; ++e) {
        float out = multiply_add(four.x, values[0][e], state.out[q][e]);
        out = multiply_add(four.y, values[1][e], out);
        out = multiply_add(four.z, values[2][e], out);
        state.out[q][e] = multiply_add(four.w, values[3][e], out);
      }
    }
  }
}

// -- one part -------------------------------------------------------------------------------------

/// Computes the state of the part that starts at position `begin`, from nothing. All threads of the
/// block call it. The queries must have been written; a barrier comes first.
template <int kDims, int kQueries>
__device__ void attend_part(const AttentionWork<kDims, kQueries>& work, const Attention& attention,
                            const KvLayer& kv, const TileSource& source, int begin,
                            AttentionState<kDims, kQueries>& state) {
  state.clear();
  const bool busy = work.busy();
  for (int tile = begin; tile < begin + kAttentionSplit && tile <= source.last; tile += kTile) {
    if (!range_seen(attention, work.first_position, tile, kTile)) continue;
    __syncthreads();
    load_tile<kDims>(keys_of(kv), source, tile, work.tile);
    __syncthreads();
    if (busy) {
      float scores[kQueries];
      tile_scores(work, kv.head_dim, scores);
      tile_weights(work, attention, tile, scores, state);
    }
    __syncthreads();
    load_tile<kDims>(values_of(kv), source, tile, work.tile);
    __syncthreads();
    if (busy) tile_outputs(work, state);
  }
}

/// Puts a query vector into shared memory, by one warp; null: zeros.
template <int kDims>
__device__ void write_query(const float* q, int head_dim, float* to) {
  for (int i = lane_index(); i < kDims * kWarp; i += kWarp)
    to[i] = q != nullptr && i < head_dim ? q[i] : 0.0F;
}

inline bool well_formed(const Attention& attention, const KvLayer& kv) {
  return attention.q != nullptr && attention.out.data != nullptr && attention.num_heads > 0 &&
         attention.num_heads % kv.num_kv_heads == 0 &&
         attention.q_stride / kv.head_dim >= attention.num_heads &&
         attention.out.stride / kv.head_dim >= attention.num_heads && attention.window >= 0 &&
         attention.keep_first >= 0;
}

}  // namespace sluice::kernels::cuda
