// The KV pool in main memory: for each layer all K blocks, then all V blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/backend.hpp"
#include "engine/backend/mapped_memory.hpp"
#include "engine/formats/dtype.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {

class CpuKvPool {
 public:
  CpuKvPool() = default;  ///< no blocks
  /// Exactly num_blocks x block_size x the sum of kv_layer_bytes() over the layers. Throws Error:
  /// as check_kv_types, kInvalidArgument (shape), kDoesNotFit.
  CpuKvPool(const KvPoolShape& shape, const ModelConfig& config, const KvTypes& types);

  std::int32_t num_blocks() const { return shape_.num_blocks; }
  std::int32_t block_size() const { return shape_.block_size; }
  std::size_t bytes() const { return memory_.bytes(); }
  kernels::KvLayer layer(std::size_t index) const;
  /// See CpuBackend::stored_keys().
  std::vector<float> stored_keys(std::size_t layer, BlockId block, std::int32_t offset) const;

 private:
  /// Where a layer lies in memory_, in bytes, and its form without addresses.
  struct Layer {
    kernels::KvLayer form;
    std::size_t k_begin = 0;
    std::size_t v_begin = 0;
  };

  KvPoolShape shape_{0, 1};
  std::vector<Layer> layers_;
  MappedMemory memory_;
};

/// Storage that the kernels have for a KV type. Throws Error(kUnsupported).
kernels::KvEncoding kv_encoding(DType type);

}  // namespace sluice
