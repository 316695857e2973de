#include "engine/backend/cpu_kv_pool.hpp"

#include <fmt/format.h>

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
  if (shape.num_blocks < 1 || shape.block_size < 1)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a KV pool of {} blocks of {} positions holds nothing; both numbers "
                            "must be at least 1",
                            shape.num_blocks, shape.block_size));
  const std::size_t rows = product({static_cast<std::size_t>(shape.num_blocks),
                                    static_cast<std::size_t>(shape.block_size),
                                    static_cast<std::size_t>(config.num_kv_heads)});
  std::size_t total = 0;
  const auto take = [&](DType type, std::int32_t elements) {
    const std::size_t begin = total;
    if (__builtin_add_overflow(total, product({rows, kv_row_bytes(type, elements)}), &total))
      too_large();
    return begin;
  };
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    const auto [type_k, type_v] = types.of_layer(i);
    Layer layer;
    layer.form.k_encoding = kv_encoding(type_k);
    layer.form.v_encoding = kv_encoding(type_v);
    layer.form.num_kv_heads = static_cast<std::size_t>(config.num_kv_heads);
    layer.form.head_dim = static_cast<std::size_t>(config.head_dim);
    layer.form.key_dim = static_cast<std::size_t>(types.key_elements(config));
    layer.form.block_size = static_cast<std::size_t>(shape.block_size);
    layer.k_begin = take(type_k, types.key_elements(config));
    layer.v_begin = take(type_v, config.head_dim);
    layers_.push_back(layer);
  }
  memory_ = MappedMemory(total, "the KV pool");
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
  if (index >= layers_.size() || block < 0 || block >= num_blocks() || offset < 0 ||
      offset >= block_size() || layers_[index].form.k_encoding != kernels::KvEncoding::kF32)
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
