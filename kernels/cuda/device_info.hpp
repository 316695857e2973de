// Which CUDA devices this machine has. Compiles in every build; without the CUDA parts the
// answer is "none", with the reason.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sluice::kernels {

struct CudaDevice {
  int index = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  std::size_t total_bytes = 0;
};

struct CudaDevices {
  std::vector<CudaDevice> devices;
  std::string why_none;  ///< a sentence when `devices` is empty
};

/// Asks the driver. Never throws and never takes device memory.
CudaDevices cuda_devices();

}  // namespace sluice::kernels
