#include <stdexcept>

#include "kernels/cuda/cuda_device.hpp"
#include "tests/support/cuda_under_test.hpp"

namespace sluice::test {

std::unique_ptr<kernels::cuda::DeviceApi> open_device_under_test(const DeviceUnderTest&) {
  std::string why_not;
  auto device = kernels::cuda::open_cuda_device(0, why_not);
  if (device == nullptr) throw std::runtime_error("no device to test: " + why_not);
  return device;
}

bool on_host_shim() {
  return false;
}

std::string kernel_faults() {
  return {};
}

std::size_t device_bytes_taken() {
  return 0;
}

}  // namespace sluice::test
