// The KV pool in main memory: for each layer all K blocks, then all V blocks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/backend.hpp"
#include "engine/backend/mapped_memory.hpp"
#include "engine/formats/dtype.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {

class CpuKvPool {
 public:
  CpuKvPool() = default;  ///< no blocks
  /// Exactly num_blocks x block_size x layers x kv_dim elements of K and as many of V. Throws
  /// Error: kUnsupported (storage type), kInvalidArgument (shape), kDoesNotFit.
  CpuKvPool(const KvPoolShape& shape, const ModelConfig& config, DType type_k, DType type_v);

  std::int32_t num_blocks() const { return shape_.num_blocks; }
  std::int32_t block_size() const { return shape_.block_size; }
  std::size_t bytes() const { return memory_.bytes(); }
  kernels::KvLayer layer(std::size_t index) const;

 private:
  KvPoolShape shape_{0, 1};
  kernels::KvLayer form_;    ///< encodings and sizes; no addresses
  std::size_t k_bytes_ = 0;  ///< of one layer
  std::size_t v_bytes_ = 0;
  MappedMemory memory_;
};

/// Storage that the kernels have for a KV type. Throws Error(kUnsupported).
kernels::KvEncoding kv_encoding(DType type);

}  // namespace sluice
