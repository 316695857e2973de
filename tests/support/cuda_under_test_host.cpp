#include "tests/cuda_shim/cuda_shim.hpp"
#include "tests/support/cuda_under_test.hpp"
#include "tests/support/host_device.hpp"

namespace sluice::test {

std::unique_ptr<kernels::cuda::DeviceApi> open_device_under_test(const DeviceUnderTest& wanted) {
  HostDeviceOptions options;
  options.deferred = wanted.deferred;
  return std::make_unique<HostDevice>(options, wanted.injections);
}

bool on_host_shim() {
  return true;
}

std::string kernel_faults() {
  std::string all;
  for (const std::string& fault : cuda_shim::take_faults()) all += fault + "\n";
  return all;
}

std::size_t device_bytes_taken() {
  return cuda_shim::allocated_bytes();
}

}  // namespace sluice::test
