// Devices of a build without the CUDA parts.
#include "kernels/cuda/cuda_device.hpp"

namespace sluice::kernels::cuda {

std::unique_ptr<DeviceApi> open_cuda_device(int, std::string& why_not) {
  why_not = "this build has no CUDA parts";
  return nullptr;
}

}  // namespace sluice::kernels::cuda
