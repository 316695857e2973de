// How busy a device beside the CPU is, for metrics.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sluice {

struct DeviceUsage {
  int index = 0;             ///< as the program counts them
  std::string name{};        ///< e.g. "NVIDIA H200"
  double utilization = 0.0;  ///< share of the last moment in which it computed, 0 to 1
  std::size_t used_bytes = 0;
  std::size_t total_bytes = 0;
};

/// See Backend::device_probe().
using DeviceProbe = std::function<std::vector<DeviceUsage>()>;

}  // namespace sluice
