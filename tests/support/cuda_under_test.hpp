// The device that the tests of the CUDA backend run on: the host shim, or a real one where the
// same tests are linked for it (scripts/gpu-check).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/device_api.hpp"

namespace sluice::test {

/// A failure to come; only the host shim can be told.
struct Injection {
  std::string call;  ///< as in DeviceError::call; a kernel's name for its launches
  int skip = 0;      ///< calls that still go well
  int code = 0;      ///< of cudaError_t
};

struct DeviceUnderTest {
  /// Work is done as late as streams and events allow; the host shim only.
  bool deferred = false;
  /// Failures to come, shared with the test that adds to them; or null.
  std::shared_ptr<std::vector<Injection>> injections{};
};

/// Opens it. Throws std::runtime_error where there is none.
std::unique_ptr<kernels::cuda::DeviceApi> open_device_under_test(
    const DeviceUnderTest& wanted = {});

/// Whether kernels run on the CPU: slowly, but with failures on demand and checks.
bool on_host_shim();

/// What kernels did wrong since the last call, as far as the device sees it; empty: nothing.
std::string kernel_faults();

/// Bytes of memory that were taken through all devices and not given back.
std::size_t device_bytes_taken();

}  // namespace sluice::test
