// How busy a GPU is, by NVIDIA's management library, which comes with the driver. Both libraries
// are looked for when the program runs: without them there is nothing to say, and nothing breaks.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace sluice::kernels::cuda {

struct DeviceLoad {
  double utilization = 0.0;  ///< share of the last moment in which a kernel ran, 0 to 1
  std::size_t used_bytes = 0;
  std::size_t total_bytes = 0;
};

/// Where the libraries are; for tests.
struct DriverLibraries {
  std::string cuda = "libcuda.so.1";
  std::string management = "libnvidia-ml.so.1";
};

/// Thread-safe. Takes no memory of the device and does not wait for its kernels.
class DeviceMonitor {
 public:
  /// For the device that the CUDA runtime calls `device`; null when it can't be watched.
  static std::shared_ptr<const DeviceMonitor> open(int device,
                                                   const DriverLibraries& libraries = {});
  ~DeviceMonitor();
  DeviceMonitor(const DeviceMonitor&) = delete;
  DeviceMonitor& operator=(const DeviceMonitor&) = delete;

  std::optional<DeviceLoad> load() const;

 private:
  DeviceMonitor();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::kernels::cuda
