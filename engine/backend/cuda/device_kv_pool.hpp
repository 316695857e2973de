// The KV pool in device memory: for each layer all K blocks, then all V blocks. Swap slots lie in
// pinned main memory, which the copying kernel reads and writes directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/backend.hpp"
#include "engine/backend/cuda/device_memory.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice {

/// Moves that one launch can make: of one kind and group, none touching what another writes.
struct MoveRun {
  BlockMove::Kind kind = BlockMove::Kind::kCopy;
  std::size_t group = 0;
  std::size_t first = 0;  ///< of the moves
  std::size_t count = 0;
};

class DeviceKvPool {
 public:
  DeviceKvPool() = default;  ///< no blocks
  /// Throws Error: kInvalidArgument (shape), kUnsupported (type, swap file), kDoesNotFit.
  DeviceKvPool(const KvPoolShape& shape, const ModelConfig& config, const KvTypes& types,
               DeviceQueue& queue);

  const KvPoolShape& shape() const { return shape_; }
  std::size_t bytes() const { return memory_.bytes(); }
  std::size_t swap_bytes() const { return swap_.bytes(); }
  /// Positions of the largest group: no sequence is longer.
  std::int32_t positions() const;

  kernels::cuda::KvLayer layer(std::size_t index) const { return layers_[index]; }

  /// Whether a move names what is there.
  bool has(const BlockMove& move) const;
  /// Cuts moves into runs. Their order stays.
  static std::vector<MoveRun> runs_of(std::span<const BlockMove> moves);
  /// Makes one run; `pairs` [run.count] in device memory.
  void move(const MoveRun& run, const kernels::cuda::BlockPair* pairs, DeviceQueue& queue) const;

 private:
  /// What a kind of move reads and writes in each group, as device arrays.
  struct Regions {
    const kernels::cuda::BlockRegion* of_kind[3] = {};  ///< by BlockMove::Kind
    std::int32_t count = 0;
  };

  void place_layers(const ModelConfig& config, const KvTypes& types);
  void upload_regions(DeviceQueue& queue);

  /// Bytes of a layer's blocks and where they lie.
  struct Place {
    std::size_t k_begin = 0;
    std::size_t v_begin = 0;
    std::size_t k_swap = 0;
    std::size_t v_swap = 0;
    std::size_t k_block_bytes = 0;
    std::size_t v_block_bytes = 0;
  };

  KvPoolShape shape_{0, 1};
  std::vector<kernels::cuda::KvLayer> layers_;
  std::vector<Place> places_;
  std::size_t pool_bytes_ = 0;
  std::size_t swap_total_ = 0;
  std::vector<Regions> regions_;  ///< [groups]
  DeviceBuffer memory_;
  DeviceBuffer region_memory_;
  PinnedBuffer swap_;
};

}  // namespace sluice
