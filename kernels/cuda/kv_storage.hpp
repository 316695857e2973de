// Where elements of K and V lie in the pool, and how a row is found through its table. The layout
// is described at KvType in kernels.hpp.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {

inline constexpr int kMaxHeadDim = 256;
inline constexpr int kKvGroup = 32;  // elements of a position and head that share a scale

/// K or V of one layer.
struct KvTensor {
  unsigned char* data;
  KvType type;
  int num_heads;
  int head_dim;
  int block_size;
};

__device__ inline KvTensor keys_of(const KvLayer& kv) {
  return {static_cast<unsigned char*>(kv.k), kv.k_type, kv.num_kv_heads, kv.head_dim,
          kv.block_size};
}
__device__ inline KvTensor values_of(const KvLayer& kv) {
  return {static_cast<unsigned char*>(kv.v), kv.v_type, kv.num_kv_heads, kv.head_dim,
          kv.block_size};
}

__device__ inline int kv_groups(int head_dim) {
  return (head_dim + kKvGroup - 1) / kKvGroup;
}

/// Start of a block's part for one head.
__device__ inline unsigned char* kv_head_block(const KvTensor& tensor, int block, int head) {
  const int element = tensor.type == KvType::kF32 ? 4 : 2;
  const int row = tensor.type == KvType::kQ8_0 ? kv_groups(tensor.head_dim) * (kKvGroup + 2)
                                               : tensor.head_dim * element;
  return tensor.data + offset_of(block, std::int64_t{tensor.num_heads} * tensor.block_size * row) +
         std::int64_t{head} * tensor.block_size * row;
}

/// The codes of one position of a head's q8_0 block, and its scales.
__device__ inline std::int8_t* kv_codes(const KvTensor& tensor, unsigned char* head_block,
                                        int offset) {
  return reinterpret_cast<std::int8_t*>(head_block) +
         offset * kv_groups(tensor.head_dim) * kKvGroup;
}
__device__ inline std::uint16_t* kv_scales(const KvTensor& tensor, unsigned char* head_block,
                                           int offset) {
  const int groups = kv_groups(tensor.head_dim);
  return reinterpret_cast<std::uint16_t*>(head_block + tensor.block_size * groups * kKvGroup) +
         offset * groups;
}

/// The type of elements that are no codes.
__device__ constexpr ElementType plain_type(KvType type) {
  if (type == KvType::kF32) return ElementType::kF32;
  return type == KvType::kF16 ? ElementType::kF16 : ElementType::kBF16;
}

/// Block that holds a position of a row's sequence; negative: the table has none.
__device__ inline int block_of(const RowPlaces& places, int sequence, int position,
                               int block_size) {
  const int entry = position / block_size;
  if (entry >= places.table_stride) return -1;
  return places.tables[offset_of(sequence, places.table_stride) + entry];
}

inline bool well_formed(const KvLayer& kv) {
  const auto even = [&](KvType type) { return type != KvType::kQ8_0 || kv.block_size % 2 == 0; };
  return kv.k != nullptr && kv.v != nullptr && kv.num_kv_heads > 0 && kv.head_dim > 0 &&
         kv.head_dim <= kMaxHeadDim && kv.block_size > 0 && even(kv.k_type) && even(kv.v_type);
}
inline bool well_formed(const RowPlaces& places) {
  return places.positions != nullptr && places.sequences != nullptr && places.tables != nullptr &&
         places.table_stride > 0;
}

}  // namespace sluice::kernels::cuda
