// What a step sends to the device: small arrays of many kinds, packed into one pinned buffer and
// brought over by one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/backend/cuda/device_memory.hpp"

namespace sluice {

/// An array on both sides.
template <class T>
struct Staged {
  std::span<T> host;
  T* device = nullptr;
};

/// The same sequence of take() calls gives the same addresses, as long as the buffers do not grow:
/// recorded graphs rely on it.
class StepStaging {
 public:
  /// Throws as require().
  StepStaging(DeviceQueue& queue, std::size_t bytes);

  /// Begins a step that will take at most so many bytes, aligned_bytes() of each array. Grows when
  /// needed, then `generation` changes. Nothing may be under way. Throws as require().
  void begin(std::size_t bytes);
  std::uint64_t generation() const { return generation_; }

  /// Room for n elements, not initialised.
  template <class T>
  Staged<T> take(std::size_t n) {
    const std::size_t begin = used_;
    used_ += aligned_bytes(n * sizeof(T));
    return {{reinterpret_cast<T*>(pinned_.data() + begin), n},
            reinterpret_cast<T*>(device_.bytes_at(begin))};
  }

  /// Sends everything taken since begin().
  void send(DeviceQueue& queue) { queue.upload(device_.data(), pinned_.data(), used_); }

  std::size_t bytes() const { return device_.bytes(); }

 private:
  DeviceQueue& queue_;
  PinnedBuffer pinned_;
  DeviceBuffer device_;
  std::size_t used_ = 0;
  std::uint64_t generation_ = 0;
};

}  // namespace sluice
