// Vector operations with AVX-512 (F, BW, DQ, VL). Members as in simd_scalar.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/cpu_info.hpp"

namespace sluice::kernels {

struct Avx512Simd {
  static constexpr Isa kIsa = Isa::kAvx512;
  static constexpr std::size_t kWidth = 16;
  static constexpr std::size_t kTileRows = 6;  // 24 accumulators, 4 weights, 1 activation
  static constexpr std::size_t kTileQueries = 8;
  static constexpr std::size_t score_vectors(std::size_t queries) { return queries <= 4 ? 4 : 2; }
  static constexpr std::size_t kValueVectors = 2;

  using Vec = __m512;

  static __mmask16 first(std::size_t n) {
    return static_cast<__mmask16>((std::uint32_t{1} << n) - 1U);
  }

  static Vec zero() { return _mm512_setzero_ps(); }
  static Vec set1(float x) { return _mm512_set1_ps(x); }
  static Vec load(const void* p) { return _mm512_loadu_ps(p); }
  static Vec load_n(const void* p, std::size_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
  static void store(float* p, Vec a) { _mm512_storeu_ps(p, a); }
  static void store_n(float* p, Vec a, std::size_t n) { _mm512_mask_storeu_ps(p, first(n), a); }

  static Vec add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
  static Vec sub(Vec a, Vec b) { return _mm512_sub_ps(a, b); }
  static Vec mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
  static Vec div(Vec a, Vec b) { return _mm512_div_ps(a, b); }
  static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
  static Vec max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
  static Vec min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
  static Vec round(Vec a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Vec exp2_whole(Vec n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }

  /// Lanes 16 -> 4: (l + l+8), then (l + l+4) of these.
  static __m128 fold(Vec a) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  }
  static float reduce_add(Vec a) {
    const __m128 quad = fold(a);
    const __m128 pair = _mm_add_ps(quad, _mm_movehl_ps(quad, quad));  // 0+2, 1+3
    return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
  }
  static float reduce_max(Vec a) { return _mm512_reduce_max_ps(a); }
  /// Four sums at once; each adds its lanes in the order of reduce_add.
  static void reduce_add4(const Vec* v, float* out) {
    __m128 a = fold(v[0]);
    __m128 b = fold(v[1]);
    __m128 c = fold(v[2]);
    __m128 d = fold(v[3]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out, _mm_add_ps(_mm_add_ps(a, c), _mm_add_ps(b, d)));
  }

  static Vec load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vec load_f16_n(const std::byte* p, std::size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first(n), p));
  }
  static void store_f16_n(std::byte* p, Vec a, std::size_t n) {
    _mm256_mask_storeu_epi16(p, first(n),
                             _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  static Vec widen_bf16(__m256i halves) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static Vec load_bf16(const std::byte* p) {
    return widen_bf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Vec load_bf16_n(const std::byte* p, std::size_t n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first(n), p));
  }
  static Vec load_i8(const std::byte* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static void load_nibbles(const std::byte* p, Vec& low, Vec& high) {
    const __m512i bytes =
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i eight = _mm512_set1_epi32(8);
    low =
        _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_and_epi32(bytes, _mm512_set1_epi32(15)), eight));
    high = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srli_epi32(bytes, 4), eight));
  }
  static Vec broadcast_f16(const std::byte* p) {
    std::int16_t h = 0;
    __builtin_memcpy(&h, p, 2);
    return _mm512_cvtph_ps(_mm256_set1_epi16(h));
  }
};

}  // namespace sluice::kernels
