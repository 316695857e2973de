#include "kernels/cpu/cpu_info.hpp"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sched.h>
#endif

namespace sluice::kernels {
namespace {

int read_int(const std::string& path, int fallback) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? value : fallback;
}

/// CPUs the control group grants, rounded up; 0 when there is no limit.
int cgroup_cpu_quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");  // "QUOTA PERIOD" or "max PERIOD"
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  try {
    const double cpus = std::stod(quota) / period;
    return cpus > 0 && cpus < 1e6 ? static_cast<int>(cpus + 0.999) : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

}  // namespace

std::string_view isa_key(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512vnni";
  }
  return "scalar";
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "AVX2";
    case Isa::kAvx512:
      return "AVX-512";
    case Isa::kAvx512Vnni:
      return "AVX-512 VNNI";
  }
  return "scalar";
}

std::optional<Isa> isa_from_key(std::string_view key) {
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni})
    if (key == isa_key(isa)) return isa;
  return std::nullopt;
}

bool isa_supported(Isa isa) {
#if defined(__x86_64__)
  // The compiler's run-time support asks CPUID and whether the system saves the registers.
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
             __builtin_cpu_supports("f16c") != 0 && __builtin_cpu_supports("bmi2") != 0;
    case Isa::kAvx512:
      return isa_supported(Isa::kAvx2) && __builtin_cpu_supports("avx512f") != 0 &&
             __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
             __builtin_cpu_supports("avx512vl") != 0;
    case Isa::kAvx512Vnni:
      return isa_supported(Isa::kAvx512) && __builtin_cpu_supports("avx512vnni") != 0;
  }
  return false;
#else
  return isa == Isa::kScalar;
#endif
}

Isa best_isa() {
  for (const Isa isa : {Isa::kAvx512Vnni, Isa::kAvx512, Isa::kAvx2})
    if (isa_supported(isa)) return isa;
  return Isa::kScalar;
}

int usable_physical_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    std::set<std::pair<int, int>> distinct;  // (package, core)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) continue;
      const std::string topology =
          "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      const int core = read_int(topology + "core_id", -1 - cpu);  // unknown: a core of its own
      distinct.emplace(read_int(topology + "physical_package_id", 0), core);
    }
    if (!distinct.empty()) cores = static_cast<int>(distinct.size());
  }
#endif
  if (const int quota = cgroup_cpu_quota(); quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

}  // namespace sluice::kernels
