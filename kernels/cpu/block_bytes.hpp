// Reads fields of packed weight blocks, which may lie at any address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/dequantize.hpp"

namespace sluice::kernels {

inline std::uint16_t load_u16(const std::byte* src) {
  std::uint16_t value = 0;
  std::memcpy(&value, src, sizeof value);
  return value;
}

inline std::uint32_t load_u32(const std::byte* src) {
  std::uint32_t value = 0;
  std::memcpy(&value, src, sizeof value);
  return value;
}

inline float load_half(const std::byte* src) {
  return half_to_float(load_u16(src));
}

inline int byte_at(const std::byte* src, std::size_t i) {
  return std::to_integer<int>(src[i]);
}

inline int signed_byte_at(const std::byte* src, std::size_t i) {
  return std::to_integer<std::int8_t>(src[i]);
}

}  // namespace sluice::kernels
