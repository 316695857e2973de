// A failed call of the CUDA runtime or of cuBLAS as a value: what was called, what came back, what
// to do about it.
#pragma once

#include <string>

namespace sluice::kernels::cuda {

/// Holds only texts that live for ever, so that it can be made and copied where memory is short.
struct DeviceError {
  const char* call = nullptr;  ///< e.g. "cudaMallocFromPoolAsync"; null: no error
  int code = 0;                ///< of the library
  const char* name = "";       ///< of the code, e.g. "cudaErrorMemoryAllocation"
  const char* hint = "";       ///< what to do about it
  bool lost = false;  ///< the device can't be used any more before it has been opened again

  explicit operator bool() const { return call != nullptr; }
  /// "cudaStreamSynchronize failed with code 700 (cudaErrorIllegalAddress): ...", what to do last.
  std::string sentence() const;
};

/// What to do about a code of the CUDA runtime or of a LaunchStatus; never null.
const char* cuda_hint(int code);

/// Whether a code of the CUDA runtime stays until the device is opened again.
bool cuda_error_is_sticky(int code);

}  // namespace sluice::kernels::cuda
