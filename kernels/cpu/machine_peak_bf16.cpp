#include "kernels/cpu/machine_peak_loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace sluice::kernels {

std::uint64_t bf16_dots_avx512(std::uint64_t rounds) {
  constexpr int kChains = 16;
  __m512 sums[kChains];
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const __m512i bits = _mm512_set1_epi32(0x3F003F00);  // one half, twice
  __m512bh half;
  __builtin_memcpy(&half, &bits, sizeof(half));
  for (std::uint64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (__m512& sum : sums) sum = _mm512_dpbf16_ps(sum, half, half);
  }
  for (__m512& sum : sums) asm volatile("" : "+v"(sum));
  return rounds * kChains * 32 * 2;
}

}  // namespace sluice::kernels
#endif
