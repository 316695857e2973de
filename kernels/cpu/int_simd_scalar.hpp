// Integer dot products of 16 rows in plain C++: the baseline that the others are compared with.
//
// Every instruction set offers the same members; packed_matmul_impl.hpp is written against them.
// Bytes is 64 unsigned numbers, Int and Flt one number for each of 16 rows.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/block_bytes.hpp"
#include "kernels/cpu/packed_matrix.hpp"
#include "kernels/cpu/plain_rounding.hpp"

namespace sluice::kernels {

struct ScalarInts : PlainRounding<ScalarInts> {
  static constexpr std::size_t kTileRows = 2;  ///< activation rows of a tile
  static constexpr bool kDecodes = false;      ///< worth decoding weights first

  struct Bytes {
    std::uint8_t at[64];
  };
  struct Int {
    std::int32_t at[kGroupRows];
  };
  struct Flt {
    float at[kGroupRows];
  };

  template <class V, class F>
  static V make(const F& f) {
    V r;
    for (std::size_t i = 0; i < sizeof(r.at) / sizeof(r.at[0]); ++i)
      r.at[i] = static_cast<std::remove_reference_t<decltype(r.at[0])>>(f(i));
    return r;
  }

  /// Asks for a cache line: for the second level, since the first has few places to wait in.
  [[gnu::always_inline]] static void prefetch(const std::byte*) {}

  static Bytes load(const std::byte* p) {
    Bytes r;
    std::memcpy(&r, p, sizeof(r));
    return r;
  }
  static void store(std::byte* p, const Bytes& a) { std::memcpy(p, &a, sizeof(a)); }
  static Bytes low_nibbles(const Bytes& a) {
    return make<Bytes>([&](std::size_t i) { return a.at[i] & 15; });
  }
  static Bytes high_nibbles(const Bytes& a) {
    return make<Bytes>([&](std::size_t i) { return a.at[i] >> 4; });
  }
  /// a + value in the bytes whose bit is set.
  static Bytes add_where(const Bytes& a, const std::byte* bits, std::int8_t value) {
    return make<Bytes>(
        [&](std::size_t i) { return a.at[i] + (byte_at(bits, i / 8) >> i % 8 & 1) * value; });
  }
  /// a, less than 16, with the two bits of `upper` from kShift on as its bits 4 and 5.
  template <int kShift>
  static Bytes add_upper(const Bytes& a, const Bytes& upper) {
    return make<Bytes>([&](std::size_t i) { return a.at[i] | (upper.at[i] >> kShift & 3) << 4; });
  }
  static Bytes add_byte(const Bytes& a, int value) {
    return make<Bytes>([&](std::size_t i) { return a.at[i] + value; });
  }

  static Int zero() {
    return make<Int>([](std::size_t) { return 0; });
  }
  /// The 32-bit number at p in every lane.
  static Int broadcast(const std::byte* p) {
    std::int32_t value = 0;
    std::memcpy(&value, p, sizeof(value));
    return make<Int>([&](std::size_t) { return value; });
  }
  static Int sub(const Int& a, const Int& b) {
    return make<Int>([&](std::size_t i) { return a.at[i] - b.at[i]; });
  }
  template <int kBits>
  static Int shift_right(const Int& a) {
    return make<Int>([&](std::size_t i) { return a.at[i] >> kBits; });
  }
  /// acc + the dot products of four weights of each row and the four signed bytes at `four`.
  /// kWide: weights may be above 127.
  template <bool kWide>
  static Int dot(const Int& acc, const Bytes& w, const std::byte* four) {
    return make<Int>([&](std::size_t i) {
      std::int32_t sum = acc.at[i];
      for (std::size_t c = 0; c < 4; ++c) sum += w.at[4 * i + c] * signed_byte_at(four, c);
      return sum;
    });
  }

  static Flt zero_floats() {
    return make<Flt>([](std::size_t) { return 0.0F; });
  }
  /// float(a) x 2^k; `exponent` points to k << 23. Zero becomes 2^(k - 127), which is nothing.
  static Flt scaled(const Int& a, const std::byte* exponent) {
    std::int32_t add = 0;
    std::memcpy(&add, exponent, sizeof(add));
    return make<Flt>([&](std::size_t i) {
      return std::bit_cast<float>(std::bit_cast<std::int32_t>(static_cast<float>(a.at[i])) + add);
    });
  }
  static Flt mul(const Flt& a, const Flt& b) {
    return make<Flt>([&](std::size_t i) { return a.at[i] * b.at[i]; });
  }
  static Flt negate(const Flt& a) {
    return make<Flt>([&](std::size_t i) { return -a.at[i]; });
  }
  static Flt fma(const Flt& a, const Flt& b, const Flt& c) {
    return make<Flt>([&](std::size_t i) { return std::fma(a.at[i], b.at[i], c.at[i]); });
  }
  /// sum - a x the float at b.
  static Flt subtract_product(const Flt& sum, const Flt& a, const std::byte* b) {
    float value = 0;
    std::memcpy(&value, b, sizeof(value));
    return make<Flt>([&](std::size_t i) { return std::fma(-a.at[i], value, sum.at[i]); });
  }
  static Flt load_floats(const std::byte* p) {
    Flt r;
    std::memcpy(&r, p, sizeof(r));
    return r;
  }
  static void store_floats(std::byte* p, const Flt& a) { std::memcpy(p, &a, sizeof(a)); }
  /// 16 numbers, widened.
  static Flt load_f16(const std::byte* p) {
    return make<Flt>([&](std::size_t i) { return load_half(p + 2 * i); });
  }
  static Flt load_u8(const std::byte* p) {
    return make<Flt>([&](std::size_t i) { return byte_at(p, i); });
  }
  static Flt load_i8(const std::byte* p) {
    return make<Flt>([&](std::size_t i) { return signed_byte_at(p, i); });
  }
  /// y[i] = sum[i] x the float at `factor` for i in [first, last).
  static void store_scaled(float* y, const Flt& sum, const std::byte* factor, std::size_t first,
                           std::size_t last) {
    float value = 0;
    std::memcpy(&value, factor, sizeof(value));
    for (std::size_t i = first; i < last; ++i) y[i] = sum.at[i] * value;
  }
};

}  // namespace sluice::kernels
