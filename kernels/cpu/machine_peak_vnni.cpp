#include "kernels/cpu/machine_peak_loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace sluice::kernels {

std::uint64_t int8_dots_vnni(std::uint64_t rounds) {
  constexpr int kChains = 16;
  __m512i sums[kChains];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  const __m512i w = _mm512_set1_epi8(3);
  for (std::uint64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512i& sum : sums) sum = _mm512_dpbusd_epi32(sum, w, w);
  }
  for (__m512i& sum : sums) asm volatile("" : "+v"(sum));
  return rounds * kChains * 64 * 2;
}

}  // namespace sluice::kernels
#endif
