// The shim itself: it finds what it claims to find.
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda_shim/cuda_shim.hpp"
#include "tests/cuda_shim/half.hpp"
#include "tests/kernels/cuda/broken_kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"

namespace sluice::kernels::cuda {
namespace {

using cuda_shim::Order;

std::vector<float> counting() {
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// The fault that one launch leaves; empty: none.
std::string fault_of(Fault fault) {
  const DeviceArray<float> in(counting());
  DeviceArray<float> out(64);
  const LaunchStatus status = broken(fault, in.data(), out.data(), nullptr);
  const std::vector<std::string> faults = cuda_shim::take_faults();
  CHECK(status.ok() == faults.empty());
  CHECK(faults.size() <= 1);
  return faults.empty() ? "" : faults[0];
}

using Catch::Matchers::Contains;

TEST_CASE("the shim runs a kernel without faults in every order") {
  const DeviceArray<float> in(counting());
  DeviceArray<float> out(64);
  const std::vector<float> result = same_in_every_order(
      [&] { check_launch(broken(Fault::kNone, in.data(), out.data(), nullptr)); },
      [&] { return out.read(); });
  for (std::size_t i = 0; i < 64; ++i) CHECK(result[i] == 2.0F * static_cast<float>(i + 1));
}

TEST_CASE("the shim finds access beyond a buffer") {
  CHECK_THAT(fault_of(Fault::kReadBehind),
             Contains("broken, block (0, 0, 0), thread 3: access 0 bytes behind the end of a "
                      "buffer of 256 bytes"));
  CHECK_THAT(fault_of(Fault::kWriteBehind), Contains("access 0 bytes behind the end"));
  CHECK_THAT(fault_of(Fault::kWriteFarBehind), Contains("access 3000 bytes behind the end"));
  CHECK_THAT(fault_of(Fault::kWriteBefore), Contains("write 4 bytes before the start"));
  CHECK(fault_of(Fault::kNone).empty());
}

TEST_CASE("the shim finds access behind shared memory") {
  CHECK_THAT(fault_of(Fault::kSharedBehind), Contains("thread 3: access"));
}

TEST_CASE("the shim finds barriers that not all threads reach") {
  CHECK_THAT(fault_of(Fault::kBarrierInBranch), Contains("never come; 32 have ended"));
  CHECK_THAT(fault_of(Fault::kTwoBarriers), Contains("while others wait at broken_kernels.cpp:"));
}

TEST_CASE("the shim finds warp operations with lanes that are not there") {
  CHECK_THAT(fault_of(Fault::kShuffleInBranch), Contains("waits at"));
  CHECK_THAT(fault_of(Fault::kShuffleOfLeft), Contains("have ended"));
}

TEST_CASE("a missing barrier shows as a result that depends on the order") {
  const DeviceArray<float> in(counting());
  const auto result = [&](Order order) {
    DeviceArray<float> out(64);
    cuda_shim::set_order(order);
    check_launch(broken(Fault::kMissingBarrier, in.data(), out.data(), nullptr));
    cuda_shim::set_order(Order::kAscending);
    return out.read();
  };
  CHECK(result(Order::kAscending) != result(Order::kDescending));
}

TEST_CASE("shared memory starts as rubbish") {
  const DeviceArray<float> in(counting());
  DeviceArray<float> out(64);
  check_launch(broken(Fault::kUnwrittenShared, in.data(), out.data(), nullptr));
  for (const float x : out.read()) CHECK(x < -4e8F);
}

TEST_CASE("shim memory is counted and buffers of no bytes are allowed") {
  const std::size_t before = cuda_shim::allocated_bytes();
  {
    const DeviceArray<float> some(100);
    const DeviceArray<float> none(0);
    CHECK(cuda_shim::allocated_bytes() == before + 400);
  }
  CHECK(cuda_shim::allocated_bytes() == before);
}

TEST_CASE("half precision in software agrees with its definition") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float x = cuda_shim::half_to_float(half);
    if (x != x) continue;
    REQUIRE(cuda_shim::float_to_half(x) == half);
  }
  CHECK(cuda_shim::float_to_half(65519.0F) == 0x7BFF);
  CHECK(cuda_shim::float_to_half(65520.0F) == 0x7C00);
  CHECK(cuda_shim::float_to_half(0x1p-25F) == 0x0000);  // a tie, to even
  CHECK(cuda_shim::float_to_half(0x1.8p-24F) == 0x0002);
  CHECK(cuda_shim::float_to_half(1.0F + 0x1p-11F) == 0x3C00);
  CHECK(cuda_shim::float_to_half(1.0F + 0x1.8p-10F) == 0x3C02);
}

}  // namespace
}  // namespace sluice::kernels::cuda
