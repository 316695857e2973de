#include "kernels/cuda/device_usage.hpp"

#include <dlfcn.h>

#include <array>
#include <cstdint>

namespace sluice::kernels::cuda {
namespace {

// The few declarations of <cuda.h> and <nvml.h> that are needed; both are stable interfaces, and
// this file compiles without their headers. Codes are 0 for success.
constexpr int kOk = 0;
using NvmlDevice = void*;
struct NvmlMemory {
  std::uint64_t total;
  std::uint64_t free;
  std::uint64_t used;
};
struct NvmlUtilization {
  unsigned gpu;  // per cent
  unsigned memory;
};
using CuInit = int(unsigned);
using CuDeviceGet = int(int*, int);
using CuDeviceGetPciBusId = int(char*, int, int);
using NvmlInit = int();
using NvmlShutdown = int();
using NvmlDeviceByPciBusId = int(const char*, NvmlDevice*);
using NvmlMemoryInfo = int(NvmlDevice, NvmlMemory*);
using NvmlUtilizationRates = int(NvmlDevice, NvmlUtilization*);

class Library {
 public:
  explicit Library(const std::string& name)
      : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Null when there is no such function, or no library.
  template <class Function>
  Function* find(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

/// The driver numbers devices as the runtime does, the management library does not: what both know
/// is the place on the bus.
std::string bus_id(int device, const std::string& library) {
  const Library driver(library);
  const auto init = driver.find<CuInit>("cuInit");
  const auto get = driver.find<CuDeviceGet>("cuDeviceGet");
  const auto pci = driver.find<CuDeviceGetPciBusId>("cuDeviceGetPCIBusId");
  std::array<char, 32> text{};
  int handle = 0;
  if (init == nullptr || get == nullptr || pci == nullptr || init(0) != kOk ||
      get(&handle, device) != kOk ||
      pci(text.data(), static_cast<int>(text.size()) - 1, handle) != kOk) {
    return {};
  }
  return text.data();
}

}  // namespace

struct DeviceMonitor::Impl {
  explicit Impl(const std::string& name) : library(name) {}
  ~Impl() {
    const auto shut_down = library.find<NvmlShutdown>("nvmlShutdown");
    if (open && shut_down != nullptr) shut_down();
  }

  const Library library;
  bool open = false;
  NvmlDevice device = nullptr;
  NvmlMemoryInfo* memory_info = nullptr;
  NvmlUtilizationRates* utilization_rates = nullptr;
};

DeviceMonitor::DeviceMonitor() = default;
DeviceMonitor::~DeviceMonitor() = default;

std::shared_ptr<const DeviceMonitor> DeviceMonitor::open(int device,
                                                         const DriverLibraries& libraries) {
  const std::string place = bus_id(device, libraries.cuda);
  if (place.empty()) return nullptr;
  const std::shared_ptr<DeviceMonitor> monitor(new DeviceMonitor);
  monitor->impl_ = std::make_unique<Impl>(libraries.management);
  Impl& impl = *monitor->impl_;
  const auto init = impl.library.find<NvmlInit>("nvmlInit_v2");
  const auto by_place = impl.library.find<NvmlDeviceByPciBusId>("nvmlDeviceGetHandleByPciBusId_v2");
  impl.memory_info = impl.library.find<NvmlMemoryInfo>("nvmlDeviceGetMemoryInfo");
  impl.utilization_rates = impl.library.find<NvmlUtilizationRates>("nvmlDeviceGetUtilizationRates");
  if (init == nullptr || by_place == nullptr || impl.memory_info == nullptr ||
      impl.utilization_rates == nullptr) {
    return nullptr;
  }
  impl.open = init() == kOk;
  if (!impl.open || by_place(place.c_str(), &impl.device) != kOk) return nullptr;
  return monitor;
}

std::optional<DeviceLoad> DeviceMonitor::load() const {
  NvmlMemory memory{};
  NvmlUtilization utilization{};
  if (impl_->memory_info(impl_->device, &memory) != kOk) return std::nullopt;
  // Parts of a device (MIG) have memory, but no utilization of their own.
  const bool known = impl_->utilization_rates(impl_->device, &utilization) == kOk;
  return DeviceLoad{known ? utilization.gpu / 100.0 : 0.0, memory.used, memory.total};
}

}  // namespace sluice::kernels::cuda
