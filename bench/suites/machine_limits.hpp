// What the machine can do at this moment: measured right beside a result, in the same process.
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/cpu/cpu_info.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice::bench {

struct MachineLimits {
  double read_gbs = 0;     ///< memory, all threads together, 10^9 bytes a second
  double int8_gops = 0;    ///< 8-bit dot products, a multiplication and an addition are two
  double bf16_gflops = 0;  ///< 0 without the instruction
  double f32_gflops = 0;
};

/// Takes about a quarter of a second; the best of several short measurements.
class LimitProbe {
 public:
  LimitProbe(kernels::Isa isa, int threads);
  /// Nothing is measured: a device's limits by its data sheet or clocks.
  explicit LimitProbe(const MachineLimits& known) : known_(known) {}
  ~LimitProbe();
  LimitProbe(const LimitProbe&) = delete;
  LimitProbe& operator=(const LimitProbe&) = delete;

  MachineLimits measure();

 private:
  std::optional<MachineLimits> known_;
  kernels::Isa isa_ = kernels::Isa::kScalar;
  kernels::ThreadPool threads_{1};
  std::byte* memory_ = nullptr;
};

}  // namespace sluice::bench
