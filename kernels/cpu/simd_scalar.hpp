// Vector operations in plain C++, for processors without a faster set and as the baseline that
// the others are compared with. Eight lanes, which the compiler maps to what it may use.
//
// Every instruction set offers the same members; matmul_impl.hpp and the other _impl files are
// written against them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/cpu_info.hpp"

namespace sluice::kernels {

struct ScalarSimd {
  static constexpr Isa kIsa = Isa::kScalar;
  static constexpr std::size_t kWidth = 8;
  static constexpr std::size_t kTileRows = 2;     ///< activation rows of a matmul tile
  static constexpr std::size_t kTileQueries = 4;  ///< queries of an attention tile
  static constexpr std::size_t score_vectors(std::size_t) { return 2; }
  static constexpr std::size_t kValueVectors = 2;

  struct Vec {
    float lane[kWidth];
  };

  template <class F>
  static Vec make(F&& f) {
    Vec r;
    for (std::size_t i = 0; i < kWidth; ++i) r.lane[i] = f(i);
    return r;
  }

  static Vec zero() {
    return make([](std::size_t) { return 0.0F; });
  }
  static Vec set1(float x) {
    return make([&](std::size_t) { return x; });
  }
  static Vec load(const void* p) {
    Vec r;
    std::memcpy(&r, p, sizeof(r));
    return r;
  }
  /// The first n lanes; the others are zero. Reads only those n.
  static Vec load_n(const void* p, std::size_t n) {
    Vec r = zero();
    std::memcpy(&r, p, n * sizeof(float));
    return r;
  }
  static void store(float* p, Vec a) { std::memcpy(p, &a, sizeof(a)); }
  static void store_n(float* p, Vec a, std::size_t n) { std::memcpy(p, &a, n * sizeof(float)); }

  static Vec add(Vec a, Vec b) {
    return make([&](std::size_t i) { return a.lane[i] + b.lane[i]; });
  }
  static Vec sub(Vec a, Vec b) {
    return make([&](std::size_t i) { return a.lane[i] - b.lane[i]; });
  }
  static Vec mul(Vec a, Vec b) {
    return make([&](std::size_t i) { return a.lane[i] * b.lane[i]; });
  }
  static Vec div(Vec a, Vec b) {
    return make([&](std::size_t i) { return a.lane[i] / b.lane[i]; });
  }
  /// a * b + c; rounded once or twice, but always the same way.
  static Vec fma(Vec a, Vec b, Vec c) {
    return make([&](std::size_t i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
  }
  /// The larger one; b where either is not a number.
  static Vec max(Vec a, Vec b) {
    return make([&](std::size_t i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  /// The smaller one; b where either is not a number.
  static Vec min(Vec a, Vec b) {
    return make([&](std::size_t i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec round(Vec a) {
    // Adding 1.5 * 2^23 leaves no room for a fraction; good for |a| below 2^22.
    constexpr float kMagic = 12582912.0F;
    return make([&](std::size_t i) { return (a.lane[i] + kMagic) - kMagic; });
  }
  /// 2^n for whole n in [-126, 127]; not a number stays unspecified.
  static Vec exp2_whole(Vec n) {
    Vec r;
    for (std::size_t i = 0; i < kWidth; ++i) {
      const float clean = n.lane[i] == n.lane[i] ? n.lane[i] : 0.0F;
      const std::uint32_t bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(clean) + 127)
                                 << 23;
      std::memcpy(&r.lane[i], &bits, sizeof(bits));
    }
    return r;
  }
  static float reduce_add(Vec a) {
    return ((a.lane[0] + a.lane[4]) + (a.lane[2] + a.lane[6])) +
           ((a.lane[1] + a.lane[5]) + (a.lane[3] + a.lane[7]));
  }
  static float reduce_max(Vec a) {
    float m = a.lane[0];
    for (std::size_t i = 1; i < kWidth; ++i) m = m > a.lane[i] ? m : a.lane[i];
    return m;
  }
  /// out[i] = sum of the lanes of v[i].
  static void reduce_add4(const Vec* v, float* out) {
    for (std::size_t i = 0; i < 4; ++i) out[i] = reduce_add(v[i]);
  }

  static float f16_to_f32(std::uint16_t h) {
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
    const std::uint32_t magnitude = h & 0x7FFFU;
    std::uint32_t bits = 0;
    if (magnitude >= 0x7C00U) {  // infinity, not a number
      bits = sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13);
    } else if (magnitude >= 0x400U) {
      bits = sign | ((magnitude << 13) + (112U << 23));
    } else {  // subnormal: magnitude * 2^-24, exact
      const float value = static_cast<float>(magnitude) * 0x1p-24F;
      std::memcpy(&bits, &value, sizeof(bits));
      bits |= sign;
    }
    float result = 0;
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  }

  /// Rounds to nearest, ties to even, like the hardware.
  static std::uint16_t f32_to_f16(float x) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
    bits &= 0x7FFFFFFFU;
    if (bits > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);
    if (bits >= 0x47800000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // >= 65536
    if (bits < 0x38800000U) {  // below 2^-14: subnormal; the addition does the rounding
      float magnitude = 0;
      std::memcpy(&magnitude, &bits, sizeof(magnitude));
      const float shifted = magnitude + 0.5F;  // unit in the last place of 0.5 is 2^-24
      std::uint32_t shifted_bits = 0;
      std::memcpy(&shifted_bits, &shifted, sizeof(shifted_bits));
      return static_cast<std::uint16_t>(sign | (shifted_bits - 0x3F000000U));
    }
    const std::uint32_t odd = (bits >> 13) & 1U;
    bits += 0xFFFU + odd;
    return static_cast<std::uint16_t>(sign | ((bits - (112U << 23)) >> 13));
  }

  static Vec load_f16(const std::byte* p) { return load_f16_n(p, kWidth); }
  static Vec load_f16_n(const std::byte* p, std::size_t n) {
    Vec r = zero();
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t h = 0;
      std::memcpy(&h, p + 2 * i, 2);
      r.lane[i] = f16_to_f32(h);
    }
    return r;
  }
  static void store_f16_n(std::byte* p, Vec a, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint16_t h = f32_to_f16(a.lane[i]);
      std::memcpy(p + 2 * i, &h, 2);
    }
  }
  static Vec load_bf16(const std::byte* p) { return load_bf16_n(p, kWidth); }
  static Vec load_bf16_n(const std::byte* p, std::size_t n) {
    Vec r = zero();
    for (std::size_t i = 0; i < n; ++i) {
      std::uint16_t h = 0;
      std::memcpy(&h, p + 2 * i, 2);
      const std::uint32_t bits = static_cast<std::uint32_t>(h) << 16;
      std::memcpy(&r.lane[i], &bits, sizeof(bits));
    }
    return r;
  }
  static Vec load_i8(const std::byte* p) {
    return make([&](std::size_t i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
  }
  /// 4-bit codes of kWidth bytes, each minus 8: the low halves and the high halves.
  static void load_nibbles(const std::byte* p, Vec& low, Vec& high) {
    low = make([&](std::size_t i) { return static_cast<float>(p[i] & std::byte{15}) - 8.0F; });
    high = make([&](std::size_t i) { return static_cast<float>(p[i] >> 4) - 8.0F; });
  }
  /// One half-precision number in all lanes.
  static Vec broadcast_f16(const std::byte* p) {
    std::uint16_t h = 0;
    std::memcpy(&h, p, 2);
    return set1(f16_to_f32(h));
  }
};

}  // namespace sluice::kernels
