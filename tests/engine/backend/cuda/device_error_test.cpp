#include "kernels/cuda/device_error.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace sluice::kernels::cuda;

TEST_CASE("a failed CUDA call says call and code and what to do") {
  CHECK_FALSE(DeviceError{});
  CHECK(DeviceError{}.sentence() == "");
  const DeviceError full{"cudaMallocFromPoolAsync", 2, "cudaErrorMemoryAllocation", cuda_hint(2),
                         cuda_error_is_sticky(2)};
  CHECK(full);
  CHECK_FALSE(full.lost);
  CHECK(full.sentence().find("cudaMallocFromPoolAsync failed with code 2 "
                             "(cudaErrorMemoryAllocation): the device's memory is full") == 0);
}

TEST_CASE("every code has a hint and only those that stay are sticky") {
  for (int code = -3; code < 1000; ++code) CHECK(std::string(cuda_hint(code)).size() > 10);
  for (const int code : {700, 710, 716, 719, 214}) CHECK(cuda_error_is_sticky(code));
  for (const int code : {0, 1, 2, 35, 100, 209, 701, -1}) CHECK_FALSE(cuda_error_is_sticky(code));
}
