#include "engine/backend/cpu_kv_pool.hpp"

#include <fmt/format.h>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

/// Product of sizes. Throws when it does not fit into an address.
std::size_t product(std::initializer_list<std::size_t> factors) {
  std::size_t result = 1;
  for (const std::size_t factor : factors)
    if (__builtin_mul_overflow(result, factor, &result))
      throw Error(ErrorCode::kDoesNotFit,
                  "the KV pool would be larger than any memory; use fewer blocks");
  return result;
}

}  // namespace

kernels::KvEncoding kv_encoding(DType type) {
  if (type == DType::kF32) return kernels::KvEncoding::kF32;
  if (type == DType::kF16) return kernels::KvEncoding::kF16;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the KV cache can't be stored as {}; use f16 or f32", traits(type).name));
}

CpuKvPool::CpuKvPool(const KvPoolShape& shape, const ModelConfig& config, DType type_k,
                     DType type_v)
    : shape_(shape) {
  form_.k_encoding = kv_encoding(type_k);
  form_.v_encoding = kv_encoding(type_v);
  if (shape.num_blocks < 1 || shape.block_size < 1)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a KV pool of {} blocks of {} positions holds nothing; both numbers "
                            "must be at least 1",
                            shape.num_blocks, shape.block_size));
  form_.num_kv_heads = static_cast<std::size_t>(config.num_kv_heads);
  form_.head_dim = static_cast<std::size_t>(config.head_dim);
  form_.block_size = static_cast<std::size_t>(shape.block_size);
  const std::size_t elements = product({static_cast<std::size_t>(shape.num_blocks),
                                        form_.block_size, form_.num_kv_heads, form_.head_dim});
  k_bytes_ = product({elements, kernels::kv_element_bytes(form_.k_encoding)});
  v_bytes_ = product({elements, kernels::kv_element_bytes(form_.v_encoding)});
  const auto layers = static_cast<std::size_t>(config.num_layers);
  const std::size_t total = product({layers, k_bytes_}) + product({layers, v_bytes_});
  memory_ = MappedMemory(total, "the KV pool");
}

kernels::KvLayer CpuKvPool::layer(std::size_t index) const {
  kernels::KvLayer layer = form_;
  layer.k = memory_.data() + index * (k_bytes_ + v_bytes_);
  layer.v = layer.k + k_bytes_;
  return layer;
}

}  // namespace sluice
