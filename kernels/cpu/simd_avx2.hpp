// Vector operations with AVX2, FMA and F16C. Members as in simd_scalar.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_info.hpp"

namespace sluice::kernels {

struct Avx2Simd {
  static constexpr Isa kIsa = Isa::kAvx2;
  static constexpr std::size_t kWidth = 8;
  static constexpr std::size_t kTileRows = 2;  // 8 accumulators, 4 weights, 1 activation
  static constexpr std::size_t kTileQueries = 4;
  static constexpr std::size_t score_vectors(std::size_t queries) { return queries <= 2 ? 4 : 2; }
  static constexpr std::size_t kValueVectors = 2;

  using Vec = __m256;

  static __m256i first(std::size_t n) {
    const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), index);
  }

  static Vec zero() { return _mm256_setzero_ps(); }
  static Vec set1(float x) { return _mm256_set1_ps(x); }
  static Vec load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static Vec load_n(const void* p, std::size_t n) {
    return _mm256_maskload_ps(static_cast<const float*>(p), first(n));
  }
  static void store(float* p, Vec a) { _mm256_storeu_ps(p, a); }
  static void store_n(float* p, Vec a, std::size_t n) { _mm256_maskstore_ps(p, first(n), a); }

  static Vec add(Vec a, Vec b) { return _mm256_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm256_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm256_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm256_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
  static Vec round(Vec a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vec exp2_whole(Vec n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }

  /// Lanes 8 -> 4: l + l+4.
  static __m128 fold(Vec a) {
    return _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  }
  static float reduce_add(Vec a) {
    const __m128 quad = fold(a);
    const __m128 pair = _mm_add_ps(quad, _mm_movehl_ps(quad, quad));  // 0+2, 1+3
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
  }
  static float reduce_max(Vec a) {
    const __m128 quad = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 pair = _mm_max_ps(quad, _mm_movehl_ps(quad, quad));
    return _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)));
  }
  /// Four sums at once; each adds its lanes in the order of reduce_add.
  static void reduce_add4(const Vec* v, float* out) {
    __m128 a = fold(v[0]);
    __m128 b = fold(v[1]);
    __m128 c = fold(v[2]);
    __m128 d = fold(v[3]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
  }

  /// n 16-bit elements, the others zero.
  static __m128i load_halves_n(const std::byte* p, std::size_t n) {
    alignas(16) std::int16_t halves[8] = {};
    __builtin_memcpy(halves, p, 2 * n);
    return _mm_load_si128(reinterpret_cast<const __m128i*>(halves));
  }
  static __m128i load_halves(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static Vec load_f16(const std::byte* p) { return _mm256_cvtph_ps(load_halves(p)); }
  static Vec load_f16_n(const std::byte* p, std::size_t n) {
    return _mm256_cvtph_ps(load_halves_n(p, n));
  }
  static void store_f16_n(std::byte* p, Vec a, std::size_t n) {
    alignas(16) std::int16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves),
                    _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    __builtin_memcpy(p, halves, 2 * n);
  }
  static Vec widen_bf16(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static Vec load_bf16(const std::byte* p) { return widen_bf16(load_halves(p)); }
  static Vec load_bf16_n(const std::byte* p, std::size_t n) {
    return widen_bf16(load_halves_n(p, n));
  }
  static Vec load_i8(const std::byte* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static void load_nibbles(const std::byte* p, Vec& low, Vec& high) {
    const __m256i bytes =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
    const __m256i eight = _mm256_set1_epi32(8);
    low =
        _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_and_si256(bytes, _mm256_set1_epi32(15)), eight));
    high = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bytes, 4), eight));
  }
  static Vec broadcast_f16(const std::byte* p) {
    std::int16_t h = 0;
    __builtin_memcpy(&h, p, 2);
    return _mm256_cvtph_ps(_mm_set1_epi16(h));
  }
};

}  // namespace sluice::kernels
