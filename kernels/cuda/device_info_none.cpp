// Device discovery of a build without the CUDA parts.
#include "kernels/cuda/device_info.hpp"

namespace sluice::kernels {

CudaDevices cuda_devices() {
  return {{}, "this build has no CUDA parts"};
}

}  // namespace sluice::kernels
