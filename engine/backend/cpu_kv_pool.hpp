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
  /// For each layer exactly the blocks of its group x block_size x kv_layer_bytes(). Throws Error:
  /// as check_kv_types, kInvalidArgument (shape), kDoesNotFit, kIo (swap file).
  CpuKvPool(const KvPoolShape& shape, const ModelConfig& config, const KvTypes& types);

  std::int32_t num_blocks() const { return shape_.num_blocks; }
  std::int32_t block_size() const { return shape_.block_size; }
  const KvPoolShape& shape() const { return shape_; }
  std::size_t group_of(std::size_t layer) const { return shape_.group_of(layer); }
  std::size_t bytes() const { return memory_.bytes(); }
  /// Of swap slots in main memory.
  std::size_t swap_bytes() const { return shape_.swap_file.empty() ? swap_.bytes() : 0; }
  /// Makes a move in all layers of its group. False when it names what is not there.
  bool move(const BlockMove& move) const;
  kernels::KvLayer layer(std::size_t index) const;
  /// See CpuBackend::stored_keys().
  std::vector<float> stored_keys(std::size_t layer, BlockId block, std::int32_t offset) const;

 private:
  /// Where a layer lies in memory_, in bytes, and its form without addresses.
  struct Layer {
    kernels::KvLayer form;
    std::size_t k_begin = 0;
    std::size_t v_begin = 0;
    std::size_t k_block_bytes = 0;
    std::size_t v_block_bytes = 0;
    std::size_t k_swap = 0;  ///< where its swap slots lie in swap_, in bytes
    std::size_t v_swap = 0;
  };

  Layer make_layer(std::int32_t index, const ModelConfig& config, const KvTypes& types,
                   std::size_t& pool_bytes, std::size_t& swap_bytes) const;

  KvPoolShape shape_{0, 1};
  std::vector<Layer> layers_;
  MappedMemory memory_;
  MappedMemory swap_;
};

/// Storage that the kernels have for a KV type. Throws Error(kUnsupported).
kernels::KvEncoding kv_encoding(DType type);

}  // namespace sluice
