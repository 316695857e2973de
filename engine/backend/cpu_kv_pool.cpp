#include "engine/backend/cpu_kv_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

[[noreturn]] void too_large() {
  throw Error(ErrorCode::kDoesNotFit,
              "the KV pool would be larger than any memory; use fewer blocks");
}

/// Product of sizes. Throws when it does not fit into an address.
std::size_t product(std::initializer_list<std::size_t> factors) {
  std::size_t result = 1;
  for (const std::size_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result)) too_large();
  return result;
}

}  // namespace

kernels::KvEncoding kv_encoding(DType type) {
  switch (type) {
    case DType::kF32:
      return kernels::KvEncoding::kF32;
    case DType::kF16:
      return kernels::KvEncoding::kF16;
    case DType::kBF16:
      return kernels::KvEncoding::kBF16;
    case DType::kQ8_0:
      return kernels::KvEncoding::kQ8_0;
    case DType::kQ4_0:
      return kernels::KvEncoding::kQ4_0;
    default:
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the KV cache can't be stored as {}", traits(type).name));
  }
}

CpuKvPool::CpuKvPool(const KvPoolShape& shape, const ModelConfig& config, const KvTypes& types)
    : shape_(shape) {
  check_kv_types(types, config);
  for (std::size_t g = 0; g < shape.num_groups(); ++g) {
    if (shape.group(g).num_blocks < 1 || shape.block_size < 1)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a KV pool of {} blocks of {} positions holds nothing; both numbers "
                              "must be at least 1",
                              shape.group(g).num_blocks, shape.block_size));
  }
  std::size_t pool_bytes = 0;
  std::size_t swap_bytes = 0;
  for (std::int32_t i = 0; i < config.num_layers; ++i)
    layers_.push_back(make_layer(i, config, types, pool_bytes, swap_bytes));
  memory_ = MappedMemory(pool_bytes, "the KV pool");
  swap_ = shape.swap_file.empty() ? MappedMemory(swap_bytes, "the KV swap space")
                                  : MappedMemory::in_file(swap_bytes, shape.swap_file);
}

CpuKvPool::Layer CpuKvPool::make_layer(std::int32_t index, const ModelConfig& config,
                                       const KvTypes& types, std::size_t& pool_bytes,
                                       std::size_t& swap_bytes) const {
  const KvGroup group = shape_.group(shape_.group_of(static_cast<std::size_t>(index)));
  const auto take = [](std::size_t& total, std::int32_t count, std::size_t bytes) {
    const std::size_t begin = total;
    if (__builtin_add_overflow(total, product({static_cast<std::size_t>(count), bytes}), &total))
      too_large();
    return begin;
  };
  const auto [type_k, type_v] = types.of_layer(index);
  Layer layer;
  layer.form.k_encoding = kv_encoding(type_k);
  layer.form.v_encoding = kv_encoding(type_v);
  layer.form.num_kv_heads = static_cast<std::size_t>(config.num_kv_heads);
  layer.form.head_dim = static_cast<std::size_t>(config.head_dim);
  layer.form.key_dim = static_cast<std::size_t>(types.key_elements(config));
  layer.form.block_size = static_cast<std::size_t>(shape_.block_size);
  const std::size_t rows = product({layer.form.block_size, layer.form.num_kv_heads});
  layer.k_block_bytes = product({rows, kv_row_bytes(type_k, types.key_elements(config))});
  layer.v_block_bytes = product({rows, kv_row_bytes(type_v, config.head_dim)});
  layer.k_begin = take(pool_bytes, group.num_blocks, layer.k_block_bytes);
  layer.v_begin = take(pool_bytes, group.num_blocks, layer.v_block_bytes);
  layer.k_swap = take(swap_bytes, std::max(group.swap_slots, 0), layer.k_block_bytes);
  layer.v_swap = take(swap_bytes, std::max(group.swap_slots, 0), layer.v_block_bytes);
  return layer;
}

bool CpuKvPool::move(const BlockMove& move) const {
  if (move.group < 0 || static_cast<std::size_t>(move.group) >= shape_.num_groups()) return false;
  const KvGroup group = shape_.group(static_cast<std::size_t>(move.group));
  const bool from_swap = move.kind == BlockMove::Kind::kSwapIn;
  const bool to_swap = move.kind == BlockMove::Kind::kSwapOut;
  if (move.from < 0 || move.from >= (from_swap ? group.swap_slots : group.num_blocks)) return false;
  if (move.to < 0 || move.to >= (to_swap ? group.swap_slots : group.num_blocks)) return false;
  const auto from = static_cast<std::size_t>(move.from);
  const auto to = static_cast<std::size_t>(move.to);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (shape_.group_of(i) != static_cast<std::size_t>(move.group)) continue;
    const Layer& layer = layers_[i];
    const auto copy = [&](std::size_t begin, std::size_t swap, std::size_t bytes) {
      const std::byte* source = from_swap ? swap_.data() + swap : memory_.data() + begin;
      std::byte* target = to_swap ? swap_.data() + swap : memory_.data() + begin;
      std::memcpy(target + to * bytes, source + from * bytes, bytes);
    };
    copy(layer.k_begin, layer.k_swap, layer.k_block_bytes);
    copy(layer.v_begin, layer.v_swap, layer.v_block_bytes);
  }
  return true;
}

kernels::KvLayer CpuKvPool::layer(std::size_t index) const {
  const Layer& found = layers_[index];
  kernels::KvLayer layer = found.form;
  layer.k = memory_.data() + found.k_begin;
  layer.v = memory_.data() + found.v_begin;
  return layer;
}

std::vector<float> CpuKvPool::stored_keys(std::size_t index, BlockId block,
                                          std::int32_t offset) const {
  if (index >= layers_.size() || block < 0 || block >= shape_.group(group_of(index)).num_blocks ||
      offset < 0 || offset >= block_size() ||
      layers_[index].form.k_encoding != kernels::KvEncoding::kF32)
    throw Error(ErrorCode::kInvalidArgument,
                "stored keys can be read from places of the pool, and only where K is f32");
  const kernels::KvLayer form = layer(index);
  std::vector<float> keys(form.num_kv_heads * form.key_dim);
  const std::size_t first = static_cast<std::size_t>(block) * keys.size();
  for (std::size_t i = 0; i < keys.size(); ++i)  // [block][head][element][position]
    std::memcpy(
        &keys[i],
        form.k + ((first + i) * form.block_size + static_cast<std::size_t>(offset)) * sizeof(float),
        sizeof(float));
  return keys;
}

}  // namespace sluice
