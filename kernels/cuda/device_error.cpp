#include "kernels/cuda/device_error.hpp"

#include <array>

namespace sluice::kernels::cuda {
namespace {

/// Codes of cudaError_t that deserve a hint of their own. The numbers are part of the runtime's
/// interface; this file compiles without its headers.
struct Known {
  int code;
  bool sticky;
  const char* hint;
};

constexpr std::array kKnown{
    Known{-2, false, "the host shim found a fault in a kernel"},
    Known{-1, false,
          "no kernel is made for a shape of this model: please report it, with the output of "
          "sluice inspect"},
    Known{2, false,
          "the device's memory is full: give the engine less with --memory, or take a shorter "
          "context, fewer sequences or a smaller KV type"},
    Known{35, false, "the driver is older than this build needs: install a newer one"},
    Known{46, false, "another process holds the device: wait for it or choose another device"},
    Known{98, false, "the build lacks this kernel: build again for this device"},
    Known{100, false, "no CUDA device is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"},
    Known{101, false, "there is no device of this number: see sluice inspect"},
    Known{209, false,
          "this build has no code for the device: build with CMAKE_CUDA_ARCHITECTURES set to its "
          "compute capability"},
    Known{214, true,
          "the device's memory has an error that can't be corrected: see nvidia-smi -q -d ECC"},
    Known{222, false, "the driver can't compile the code for this device: install a newer one"},
    Known{700, true,
          "a kernel touched memory that is not its own: please report it, with the output of "
          "scripts/gpu-check"},
    Known{701, false, "a kernel needs more registers or shared memory than the device has"},
    Known{702, true, "a kernel ran longer than the system allows: turn its time limit off"},
    Known{710, true, "an assertion in a kernel failed: please report it"},
    Known{714, true,
          "a hardware stack error: please report it, with the output of "
          "scripts/gpu-check"},
    Known{715, true,
          "a kernel met an instruction that the device does not have: build again for "
          "this device"},
    Known{716, true,
          "a kernel read at an unaligned address: please report it, with the output of "
          "scripts/gpu-check"},
    Known{717, true, "a kernel used the wrong kind of address: please report it"},
    Known{718, true, "a kernel jumped to a wrong place: please report it"},
    Known{719, true, "a kernel failed on the device: see the kernel log (dmesg) for an Xid line"},
    Known{721, true, "a kernel failed on the device: see the kernel log (dmesg) for an Xid line"},
    Known{803, false, "driver and its libraries have different versions: restart the machine"},
};

const Known* find(int code) {
  for (const Known& known : kKnown)
    if (known.code == code) return &known;
  return nullptr;
}

}  // namespace

const char* cuda_hint(int code) {
  const Known* known = find(code);
  return known != nullptr ? known->hint : "see the CUDA runtime's documentation of the code";
}

bool cuda_error_is_sticky(int code) {
  const Known* known = find(code);
  return known != nullptr && known->sticky;
}

std::string DeviceError::sentence() const {
  if (call == nullptr) return {};
  return std::string(call) + " failed with code " + std::to_string(code) + " (" + name +
         "): " + hint;
}

}  // namespace sluice::kernels::cuda
