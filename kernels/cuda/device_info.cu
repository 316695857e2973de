// Device discovery through the CUDA runtime, which is linked statically: a machine without a
// driver gets an error value here, not a failed start of the program.
#include <cuda_runtime_api.h>

#include "kernels/cuda/device_info.hpp"

namespace sluice::kernels {

CudaDevices cuda_devices() {
  CudaDevices found;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver) {
    // Also what the runtime says where there is no driver at all.
    found.why_none = "no CUDA driver on this machine, or one too old for this build";
    return found;
  }
  if (status != cudaSuccess) {
    found.why_none = std::string("cudaGetDeviceCount: ") + cudaGetErrorString(status);
    return found;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    found.devices.push_back(
        {index, properties.name, properties.major, properties.minor, properties.totalGlobalMem});
  }
  if (found.devices.empty()) found.why_none = "the driver reports no usable device";
  return found;
}

}  // namespace sluice::kernels
