// Opens a real CUDA device. Compiles in every build; without the CUDA parts there is none.
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/device_api.hpp"

namespace sluice::kernels::cuda {

/// The device of that number. Null when it can't be opened, with the reason, one sentence without
/// a full stop, in `why_not`.
///
/// The runtime is linked statically and finds the driver when it is first called; cuBLAS is loaded
/// here, and without it the device works, with why_no_gemm() saying what is missing.
std::unique_ptr<DeviceApi> open_cuda_device(int index, std::string& why_not);

}  // namespace sluice::kernels::cuda
