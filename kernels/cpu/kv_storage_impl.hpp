// KV storage: how elements of K and V are written to the pool and read back as f32.
//
// Reading a position gives the same floats whichever positions are read with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kLanesMax = 16;

[[maybe_unused]] static constexpr std::size_t padded_head_dim(std::size_t head_dim) {
  return (head_dim + kLanesMax - 1) / kLanesMax * kLanesMax;
}

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

/// Decodes K and V of positions [begin, end) for one KV head. All of them lie in the tile that
/// starts at position `tile`; only their blocks are looked up. k [head_dim x kAttentionTile],
/// v [kAttentionTile x padded head_dim], both counted from `tile`.
template <class S>
void gather_tile(const KvLayer& layer, const std::int32_t* blocks, std::size_t kv_head,
                 std::size_t tile, std::size_t begin, std::size_t end, float* k_tile,
                 float* v_tile) {
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
    const std::size_t in_tile = position - tile;

    const std::byte* k = layer.k + (head_start + offset) * k_bytes;
    for (std::size_t d = 0; d < layer.head_dim; ++d)
      decode_kv<S>(layer.k_encoding, k + d * layer.block_size * k_bytes, n,
                   k_tile + d * kAttentionTile + in_tile, false);
    const std::byte* v = layer.v + (head_start + offset * layer.head_dim) * v_bytes;
    for (std::size_t i = 0; i < n; ++i)
      decode_kv<S>(layer.v_encoding, v + i * layer.head_dim * v_bytes, layer.head_dim,
                   v_tile + (in_tile + i) * v_stride, true);
    position += n;
  }
}

/// Writes one position, see KernelTable::write_kv.
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
