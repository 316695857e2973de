// Integer dot products of 16 rows with AVX-512 and its VNNI extension. Members as in
// int_simd_scalar.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

struct VnniInts {
  static constexpr std::size_t kTileRows = 8;
  static constexpr std::size_t kTileRowsWide = 6;  // and two groups: 12 sums, 12 accumulators
  static constexpr bool kDecodes = true;

  using Bytes = __m512i;
  using Int = __m512i;
  using Flt = __m512;

  static std::uint32_t largest_magnitude(const float* x) {
    const __m512i mask = _mm512_set1_epi32(0x7FFFFFFF);
    const __m512i a = _mm512_and_si512(_mm512_loadu_si512(x), mask);
    const __m512i b = _mm512_and_si512(_mm512_loadu_si512(x + 16), mask);
    return static_cast<std::uint32_t>(_mm512_reduce_max_epi32(_mm512_max_epi32(a, b)));
  }
  static HalfSums round_block(const float* x, float inverse, std::int8_t* q) {
    const __m512 factor = _mm512_set1_ps(inverse);
    const __m512i a = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor));
    const __m512i b = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q), _mm512_cvtepi32_epi8(a));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(q + 16), _mm512_cvtepi32_epi8(b));
    return {_mm512_reduce_add_epi32(a), _mm512_reduce_add_epi32(b)};
  }

  [[gnu::always_inline]] static void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T1); }

  static Bytes load(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void store(std::byte* p, Bytes a) { _mm512_storeu_si512(p, a); }
  static Bytes low_nibbles(Bytes a) { return _mm512_and_si512(a, _mm512_set1_epi8(15)); }
  static Bytes high_nibbles(Bytes a) {
    return _mm512_and_si512(_mm512_srli_epi16(a, 4), _mm512_set1_epi8(15));
  }
  static Bytes add_where(Bytes a, const std::byte* bits, std::int8_t value) {
    std::uint64_t mask = 0;
    __builtin_memcpy(&mask, bits, 8);
    return _mm512_mask_add_epi8(a, mask, a, _mm512_set1_epi8(value));
  }
  template <int kShift>
  static Bytes add_upper(Bytes a, Bytes upper) {
    const __m512i bits =
        kShift < 4 ? _mm512_slli_epi16(upper, 4 - kShift) : _mm512_srli_epi16(upper, kShift - 4);
    // a | (bits & 0x30)
    return _mm512_ternarylogic_epi32(a, bits, _mm512_set1_epi8(0x30), 0xF8);
  }
  static Bytes add_byte(Bytes a, int value) {
    return _mm512_add_epi8(a, _mm512_set1_epi8(static_cast<char>(value)));
  }

  static Int zero() { return _mm512_setzero_si512(); }
  static Int broadcast(const std::byte* p) {
    std::int32_t value = 0;
    __builtin_memcpy(&value, p, 4);
    return _mm512_set1_epi32(value);
  }
  static Int sub(Int a, Int b) { return _mm512_sub_epi32(a, b); }
  template <int kBits>
  static Int shift_right(Int a) {
    if constexpr (kBits == 0)
      return a;
    else
      return _mm512_srai_epi32(a, kBits);
  }
  template <bool kWide>
  static Int dot(Int acc, Bytes w, const std::byte* four) {
    return _mm512_dpbusd_epi32(acc, w, broadcast(four));
  }

  static Flt zero_floats() { return _mm512_setzero_ps(); }
  static Flt scaled(Int a, const std::byte* exponent) {
    const __m512i bits = _mm512_castps_si512(_mm512_cvtepi32_ps(a));
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, broadcast(exponent)));
  }
  static Flt mul(Flt a, Flt b) { return _mm512_mul_ps(a, b); }
  static Flt negate(Flt a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0F)); }
  static Flt fma(Flt a, Flt b, Flt c) { return _mm512_fmadd_ps(a, b, c); }
  static Flt subtract_product(Flt sum, Flt a, const std::byte* b) {
    float value = 0;
    __builtin_memcpy(&value, b, 4);
    return _mm512_fnmadd_ps(a, _mm512_set1_ps(value), sum);
  }
  static Flt load_floats(const std::byte* p) { return _mm512_load_ps(p); }
  static void store_floats(std::byte* p, Flt a) { _mm512_store_ps(p, a); }
  static Flt load_f16(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Flt load_u8(const std::byte* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static Flt load_i8(const std::byte* p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static void store_scaled(float* y, Flt sum, const std::byte* factor, std::size_t first,
                           std::size_t last) {
    float value = 0;
    __builtin_memcpy(&value, factor, 4);
    const Flt result = _mm512_mul_ps(sum, _mm512_set1_ps(value));
    if (first == 0 && last == kGroupRows) {
      _mm512_storeu_ps(y, result);
    } else {
      const auto mask = static_cast<__mmask16>((1U << last) - (1U << first));
      _mm512_mask_storeu_ps(y, mask, result);
    }
  }
};

}  // namespace sluice::kernels
