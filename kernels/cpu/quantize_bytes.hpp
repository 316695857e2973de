// Writes fields of packed weight blocks, at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/dequantize.hpp"
#include "kernels/cpu/quantize.hpp"

namespace sluice::kernels {

inline void store_u16(std::byte* dst, std::uint16_t value) {
  std::memcpy(dst, &value, sizeof value);
}

inline void store_u32(std::byte* dst, std::uint32_t value) {
  std::memcpy(dst, &value, sizeof value);
}

/// Stores the nearest f16 and gives back its value, which the levels must be chosen for.
inline float store_half(std::byte* dst, float value) {
  const std::uint16_t half = float_to_half(value);
  store_u16(dst, half);
  return half_to_float(half);
}

inline void store_byte(std::byte* dst, std::size_t i, int value) {
  dst[i] = static_cast<std::byte>(static_cast<std::uint8_t>(value));
}

/// 1 / d for levels; 0 when every value becomes level 0.
inline float inverse_of(float d) {
  return d == 0 || !(1.0F / d < 1e30F && 1.0F / d > -1e30F) ? 0.0F : 1.0F / d;
}

}  // namespace sluice::kernels
