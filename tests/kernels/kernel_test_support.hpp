// What the kernel tests share: the tables of this machine, random data, exact comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/kernels.hpp"

namespace sluice::kernels::test {

inline std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> found;
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni})
    if (isa_supported(isa)) found.push_back(&kernel_table(isa));
  return found;
}

inline std::vector<float> random_floats(std::size_t n, std::mt19937& random, float scale = 1.0F) {
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(n);
  for (float& v : values) v = normal(random);
  return values;
}

inline bool same_bits(const float* a, const float* b, std::size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

/// Largest |a - b|; infinite when one is not a number.
template <class A, class B>
double worst_difference(const std::vector<A>& a, const std::vector<B>& b) {
  double worst = a.size() == b.size() ? 0.0 : HUGE_VAL;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(d <= worst)) worst = d == d ? d : HUGE_VAL;
  }
  return worst;
}

}  // namespace sluice::kernels::test
