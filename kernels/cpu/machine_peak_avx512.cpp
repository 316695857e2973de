#include "kernels/cpu/machine_peak_loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace sluice::kernels {

std::uint64_t f32_fmas_avx512(std::uint64_t rounds) {
  constexpr int kChains = 16;
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512 half = _mm512_set1_ps(0.5F);
  for (std::uint64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, half, half);
  }
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  return rounds * kChains * 16 * 2;
}

}  // namespace sluice::kernels
#endif
