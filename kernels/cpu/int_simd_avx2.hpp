// Integer dot products of 16 rows with AVX2: two halves of 8. Members as in int_simd_scalar.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.hpp"
#include "kernels/cpu/plain_rounding.hpp"

namespace sluice::kernels {

struct Avx2Ints : PlainRounding<Avx2Ints> {
  static constexpr std::size_t kTileRows = 2;
  static constexpr bool kDecodes = false;

  struct Bytes {
    __m256i low, high;
  };
  using Int = Bytes;
  struct Flt {
    __m256 low, high;
  };

  [[gnu::always_inline]] static void prefetch(const std::byte* p) { _mm_prefetch(p, _MM_HINT_T1); }

  static __m256i load_half(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Bytes load(const std::byte* p) { return {load_half(p), load_half(p + 32)}; }
  static void store(std::byte* p, Bytes a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), a.high);
  }
  static Bytes low_nibbles(Bytes a) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(a.low, mask), _mm256_and_si256(a.high, mask)};
  }
  static Bytes high_nibbles(Bytes a) {
    return low_nibbles({_mm256_srli_epi16(a.low, 4), _mm256_srli_epi16(a.high, 4)});
  }
  /// Byte i of the result is all ones where bit i of the 32 at p is set.
  static __m256i spread_bits(const std::byte* p) {
    std::int32_t bits = 0;
    __builtin_memcpy(&bits, p, 4);
    const __m256i index = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                           2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), index);
    const __m256i one_bit =
        _mm256_set1_epi64x(static_cast<std::int64_t>(std::uint64_t{0x8040201008040201}));
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one_bit), one_bit);
  }
  static Bytes add_where(Bytes a, const std::byte* bits, std::int8_t value) {
    const __m256i all = _mm256_set1_epi8(value);
    return {_mm256_add_epi8(a.low, _mm256_and_si256(spread_bits(bits), all)),
            _mm256_add_epi8(a.high, _mm256_and_si256(spread_bits(bits + 4), all))};
  }
  template <int kShift>
  static Bytes add_upper(Bytes a, Bytes upper) {
    const auto add = [](__m256i x, __m256i y) {
      const __m256i bits =
          kShift < 4 ? _mm256_slli_epi16(y, 4 - kShift) : _mm256_srli_epi16(y, kShift - 4);
      return _mm256_or_si256(x, _mm256_and_si256(bits, _mm256_set1_epi8(0x30)));
    };
    return {add(a.low, upper.low), add(a.high, upper.high)};
  }
  static Bytes add_byte(Bytes a, int value) {
    const __m256i all = _mm256_set1_epi8(static_cast<char>(value));
    return {_mm256_add_epi8(a.low, all), _mm256_add_epi8(a.high, all)};
  }

  static Int zero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  static __m256i broadcast_half(const std::byte* p) {
    std::int32_t value = 0;
    __builtin_memcpy(&value, p, 4);
    return _mm256_set1_epi32(value);
  }
  static Int broadcast(const std::byte* p) { return {broadcast_half(p), broadcast_half(p)}; }
  static Int sub(Int a, Int b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
  }
  template <int kBits>
  static Int shift_right(Int a) {
    return {_mm256_srai_epi32(a.low, kBits), _mm256_srai_epi32(a.high, kBits)};
  }
  /// Sums of two products fit into 16 bits when a weight has seven bits: 2 x 127 x 127 < 32768.
  /// The eighth bit alone fits as well: 2 x 128 x 127 < 32768.
  template <bool kWide>
  static __m256i dot_half(__m256i acc, __m256i w, __m256i x) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (kWide) {
      const __m256i top = _mm256_set1_epi8(static_cast<char>(0x80));
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_and_si256(w, top), x);
      acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, ones));
      w = _mm256_andnot_si256(top, w);
    }
    return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
  }
  template <bool kWide>
  static Int dot(Int acc, Bytes w, const std::byte* four) {
    const __m256i x = broadcast_half(four);
    return {dot_half<kWide>(acc.low, w.low, x), dot_half<kWide>(acc.high, w.high, x)};
  }

  static Flt zero_floats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Flt scaled(Int a, const std::byte* exponent) {
    const __m256i add = broadcast_half(exponent);
    const auto scale = [&](__m256i x) {
      return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(x)), add));
    };
    return {scale(a.low), scale(a.high)};
  }
  static Flt mul(Flt a, Flt b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Flt negate(Flt a) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
  }
  static Flt fma(Flt a, Flt b, Flt c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static __m256 broadcast_float(const std::byte* p) {
    float value = 0;
    __builtin_memcpy(&value, p, 4);
    return _mm256_set1_ps(value);
  }
  static Flt subtract_product(Flt sum, Flt a, const std::byte* b) {
    const __m256 value = broadcast_float(b);
    return {_mm256_fnmadd_ps(a.low, value, sum.low), _mm256_fnmadd_ps(a.high, value, sum.high)};
  }
  static Flt load_floats(const std::byte* p) {
    const auto* f = reinterpret_cast<const float*>(p);
    return {_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8)};
  }
  static void store_floats(std::byte* p, Flt a) {
    auto* f = reinterpret_cast<float*>(p);
    _mm256_storeu_ps(f, a.low);
    _mm256_storeu_ps(f + 8, a.high);
  }
  static Flt load_f16(const std::byte* p) {
    const auto* h = reinterpret_cast<const __m128i*>(p);
    return {_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
  }
  static Flt load_u8(const std::byte* p) {
    const auto* q = reinterpret_cast<const __m128i*>(p);
    const auto widen = [](const __m128i* at) {
      return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at)));
    };
    return {widen(q), widen(reinterpret_cast<const __m128i*>(p + 8))};
  }
  static Flt load_i8(const std::byte* p) {
    const auto widen = [](const std::byte* at) {
      return _mm256_cvtepi32_ps(
          _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
    };
    return {widen(p), widen(p + 8)};
  }
  static void store_scaled(float* y, Flt sum, const std::byte* factor, std::size_t first,
                           std::size_t last) {
    const __m256 value = broadcast_float(factor);
    const Flt result = {_mm256_mul_ps(sum.low, value), _mm256_mul_ps(sum.high, value)};
    if (first == 0 && last == kGroupRows) {
      _mm256_storeu_ps(y, result.low);
      _mm256_storeu_ps(y + 8, result.high);
      return;
    }
    alignas(32) float all[kGroupRows];
    _mm256_store_ps(all, result.low);
    _mm256_store_ps(all + 8, result.high);
    for (std::size_t i = first; i < last; ++i) y[i] = all[i];
  }
};

}  // namespace sluice::kernels
