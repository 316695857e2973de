// Memory of a device, and main memory that its copies may use, owned.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "engine/backend/cuda/device_queue.hpp"

namespace sluice {

/// Where parts of one allocation begin: enough for every kernel and for whole cache lines.
inline constexpr std::size_t kDeviceAlignment = 256;

constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
}

/// Device memory, taken and given back in the order of a queue, which outlives it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// `what` is it for, e.g. "the KV pool". Throws as require(). 0 bytes: nothing is taken.
  DeviceBuffer(DeviceQueue& queue, std::size_t bytes, const std::string& what)
      : queue_(&queue), bytes_(bytes) {
    if (bytes > 0)
      require(queue.api().allocate(data_, bytes, queue.stream()), "taking memory for " + what);
  }
  ~DeviceBuffer() { reset(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    if (this == &other) return *this;
    reset();
    queue_ = other.queue_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  void* data() const { return data_; }
  std::byte* bytes_at(std::size_t offset) const { return static_cast<std::byte*>(data_) + offset; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

  void reset() {
    if (data_ != nullptr) queue_->api().release(data_, queue_->stream());
    data_ = nullptr;
    bytes_ = 0;
  }

 private:
  DeviceQueue* queue_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Pinned main memory.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// Throws as require().
  PinnedBuffer(DeviceQueue& queue, std::size_t bytes, const std::string& what)
      : api_(&queue.api()), bytes_(bytes) {
    if (bytes > 0) require(api_->allocate_pinned(data_, bytes), "taking main memory for " + what);
  }
  ~PinnedBuffer() { reset(); }
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    if (this == &other) return *this;
    reset();
    api_ = other.api_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

  void reset() {
    if (data_ != nullptr) api_->release_pinned(data_);
    data_ = nullptr;
    bytes_ = 0;
  }

 private:
  kernels::cuda::DeviceApi* api_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sluice
