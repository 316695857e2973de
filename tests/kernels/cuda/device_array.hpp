// Arrays that stand for device memory, and the checks that every launch ends with.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/launch_types.hpp"
#include "tests/cuda_shim/cuda_shim.hpp"

namespace sluice::kernels::cuda {

/// Owns shim memory; fresh memory holds rubbish.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count)
      : data_(static_cast<T*>(cuda_shim::allocate(count * sizeof(T)))), count_(count) {}
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (!values.empty()) std::memcpy(data_, values.data(), values.size() * sizeof(T));
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { cuda_shim::release(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return count_; }
  std::vector<T> read() const { return {data_, data_ + count_}; }
  std::span<T> span() { return {data_, count_}; }

 private:
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// Elements of a matrix.
constexpr std::size_t elements(std::int32_t rows, std::int32_t cols) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols);
}

/// A launch that had to succeed.
inline void check_launch(LaunchStatus status) {
  const std::vector<std::string> faults = cuda_shim::take_faults();
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CAPTURE(status.kernel, status.code);
  REQUIRE(faults.empty());
  REQUIRE(status.ok());
}

/// A launch that had to be refused.
inline void check_refused(LaunchStatus status) {
  REQUIRE(cuda_shim::take_faults().empty());
  REQUIRE(status.code == LaunchStatus::kBadShape);
}

/// Runs `launch` under several orders of threads and blocks; `result` must be the same each time.
/// Returns it.
template <class Launch, class Result>
auto same_in_every_order(const Launch& launch, const Result& result) {
  using cuda_shim::Order;
  cuda_shim::set_order(Order::kAscending);
  launch();
  auto first = result();
  for (const Order order : {Order::kDescending, Order::kShuffled}) {
    cuda_shim::set_order(order, 7);
    launch();
    const auto again = result();
    cuda_shim::set_order(Order::kAscending);
    REQUIRE(again.size() == first.size());
    const std::size_t bytes = first.size() * sizeof(first[0]);
    REQUIRE((bytes == 0 || std::memcmp(again.data(), first.data(), bytes) == 0));
  }
  return first;
}

}  // namespace sluice::kernels::cuda
