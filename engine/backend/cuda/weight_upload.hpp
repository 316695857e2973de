// Brings pieces of main memory to the device through two pinned buffers.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "engine/backend/cuda/device_memory.hpp"
#include "kernels/cuda/launch_types.hpp"

namespace sluice {

class WeightUpload {
 public:
  /// Throws as require().
  explicit WeightUpload(DeviceQueue& queue);

  /// Copies `from` to `to`.
  void copy(std::byte* to, std::span<const std::byte> from);

  /// Copies what `fill(target, first, count)` makes of `count` items of `item_bytes` each, some at
  /// a time.
  void make(std::byte* to, std::size_t count, std::size_t item_bytes,
            const std::function<void(std::byte*, std::size_t, std::size_t)>& fill);

  /// Brings a matrix that has been copied into the order that kernels read best.
  void arrange(const kernels::cuda::Weights& weights);

  /// Waits until all has arrived. Throws as require().
  void finish();

 private:
  struct Stage {
    PinnedBuffer memory;
    DeviceMark sent;
    bool used = false;
  };
  /// A stage that no copy reads any more.
  Stage& next_stage();

  DeviceQueue& queue_;
  std::array<Stage, 2> stages_;
  std::size_t turn_ = 0;
};

}  // namespace sluice
