#include "kernels/cpu/machine_peak_loops.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

namespace sluice::kernels {
namespace {

constexpr int kChains = 10;  // hide the latency, leave registers for the operands

}  // namespace

std::uint64_t int8_dots_avx2(std::uint64_t rounds) {
  __m256i sums[kChains];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  __m256i w = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    asm volatile("" : "+x"(w));  // not known to stay the same
#pragma GCC unroll 10
    for (__m256i& sum : sums)
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w, sum), ones));
  }
  for (__m256i& sum : sums) asm volatile("" : "+x"(sum));
  return rounds * kChains * 32 * 2;
}

std::uint64_t f32_fmas_avx2(std::uint64_t rounds) {
  __m256 sums[kChains];
  for (__m256& sum : sums) sum = _mm256_setzero_ps();
  const __m256 half = _mm256_set1_ps(0.5F);
  for (std::uint64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 10
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, half, half);
  }
  for (__m256& sum : sums) asm volatile("" : "+x"(sum));
  return rounds * kChains * 8 * 2;
}

}  // namespace sluice::kernels
#endif
