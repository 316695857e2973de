// Encoding of KV rows: f32 elements of one position and head to bytes.
//
// Sizes here are those of kv_row_bytes(); functions have internal linkage or are templates on the
// instruction set, see table_impl.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/kernels.hpp"

namespace sluice::kernels {

/// Elements of a position that share a scale.
inline constexpr std::size_t kKvGroup = 32;
inline constexpr std::size_t kKvScaleBytes = 2;

[[maybe_unused]] static constexpr bool quantised(KvEncoding encoding) {
  return encoding == KvEncoding::kQ8_0 || encoding == KvEncoding::kQ4_0;
}

/// Bytes of an element that is not quantised.
[[maybe_unused]] static constexpr std::size_t plain_bytes(KvEncoding encoding) {
  return encoding == KvEncoding::kF32 ? 4 : 2;
}

/// Bytes of a group's codes.
[[maybe_unused]] static constexpr std::size_t code_bytes(KvEncoding encoding) {
  return encoding == KvEncoding::kQ8_0 ? kKvGroup : kKvGroup / 2;
}

[[maybe_unused]] static constexpr std::size_t groups_of(std::size_t elements) {
  return (elements + kKvGroup - 1) / kKvGroup;
}

[[maybe_unused]] static constexpr std::size_t row_bytes(KvEncoding encoding, std::size_t elements) {
  return quantised(encoding) ? groups_of(elements) * (kKvScaleBytes + code_bytes(encoding))
                             : elements * plain_bytes(encoding);
}

/// To bf16, nearest, ties to even; what is not a number stays so.
template <class S>
void store_bf16(std::byte* dst, const float* x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, x + i, sizeof(bits));
    const bool nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
    bits = nan ? bits | 0x00400000U : bits + 0x7FFFU + ((bits >> 16) & 1U);
    const auto half = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(dst + 2 * i, &half, sizeof(half));
  }
}

/// The f16 next to x, within what f16 can hold, written to dst; returns it as f32.
template <class S>
float store_scale(std::byte* dst, float x) {
  constexpr float kLargest = 65504.0F;
  const float clamped = x > kLargest ? kLargest : (x < -kLargest ? -kLargest : x);
  S::store_f16_n(dst, S::set1(clamped), 1);
  float read[S::kWidth];
  S::store(read, S::broadcast_f16(dst));
  return read[0];
}

/// x / scale to the nearest whole number (ties to even), at least -limit and at most `top`.
template <class S>
void round_codes(const float* x, float scale, float limit, float top, float* codes) {
  const auto inverse = S::set1(scale);
  for (std::size_t i = 0; i < kKvGroup; i += S::kWidth) {
    // Bounded before rounding: the scalar kernels round only small numbers.
    auto code = S::div(S::load(x + i), inverse);
    code = S::min(S::max(code, S::set1(-limit)), S::set1(top));
    S::store(codes + i, S::round(code));
  }
}

/// One group: an f16 scale, then the codes. Elements that are not finite numbers make the whole
/// group not a number, so that the fault shows instead of becoming a plausible value.
template <class S>
void encode_group(KvEncoding encoding, const float* x, std::byte* dst) {
  float largest = 0.0F;  // the element that is farthest from zero, with its sign
  float zeros = 0.0F;    // 0 * x is not a number for what is not finite
  for (std::size_t i = 0; i < kKvGroup; ++i) {
    const float magnitude = x[i] < 0.0F ? -x[i] : x[i];
    if (magnitude > (largest < 0.0F ? -largest : largest)) largest = x[i];
    zeros += 0.0F * x[i];
  }
  std::memset(dst + kKvScaleBytes, 0, code_bytes(encoding));
  if (!(zeros == 0.0F)) {
    const std::uint16_t nan = 0x7E00U;
    std::memcpy(dst, &nan, sizeof(nan));
    return;
  }
  const bool bytes = encoding == KvEncoding::kQ8_0;
  // 8 bits: -127 .. 127 of |largest| / 127. 4 bits: -8 .. 7 of largest / -8, which is exact for
  // the largest element whatever its sign.
  const float magnitude = largest < 0.0F ? -largest : largest;
  const float scale = store_scale<S>(dst, bytes ? magnitude / 127.0F : largest / -8.0F);
  if (scale == 0.0F) {
    if (!bytes) std::memset(dst + kKvScaleBytes, 0x88, code_bytes(encoding));
    return;
  }
  float codes[kKvGroup];
  round_codes<S>(x, scale, bytes ? 127.0F : 8.0F, bytes ? 127.0F : 7.0F, codes);
  for (std::size_t i = 0; i < code_bytes(encoding); ++i) {
    const auto low = static_cast<std::int32_t>(codes[i]);
    if (bytes) {
      dst[kKvScaleBytes + i] = static_cast<std::byte>(low);
    } else {
      const auto high = static_cast<std::int32_t>(codes[i + kKvGroup / 2]);
      dst[kKvScaleBytes + i] = static_cast<std::byte>((low + 8) | ((high + 8) << 4));
    }
  }
}

/// n elements to row_bytes(encoding, n) bytes. A last group that is not full is filled with zeros.
template <class S>
void encode_row(KvEncoding encoding, const float* x, std::size_t n, std::byte* dst) {
  if (encoding == KvEncoding::kF32) {
    std::memcpy(dst, x, n * sizeof(float));
  } else if (encoding == KvEncoding::kBF16) {
    store_bf16<S>(dst, x, n);
  } else if (encoding == KvEncoding::kF16) {
    for (std::size_t i = 0; i < n; i += S::kWidth) {
      const std::size_t left = n - i < S::kWidth ? n - i : S::kWidth;
      S::store_f16_n(dst + 2 * i, S::load_n(x + i, left), left);
    }
  } else {
    for (std::size_t i = 0; i < n; i += kKvGroup, dst += row_bytes(encoding, kKvGroup)) {
      float padded[kKvGroup] = {};
      const std::size_t left = n - i < kKvGroup ? n - i : kKvGroup;
      std::memcpy(padded, x + i, left * sizeof(float));
      encode_group<S>(encoding, padded, dst);
    }
  }
}

}  // namespace sluice::kernels
