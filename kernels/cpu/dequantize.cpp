#include "kernels/cpu/dequantize.hpp"

#include <cstring>

namespace sluice::kernels {
namespace {

std::uint16_t load_u16(const std::byte* src) {
  std::uint16_t value = 0;
  std::memcpy(&value, src, sizeof value);
  return value;
}

}  // namespace

void dequantize_f32(const std::byte* src, float* dst, std::size_t n) {
  if (n != 0) std::memcpy(dst, src, n * sizeof(float));
}

void dequantize_f16(const std::byte* src, float* dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dst[i] = half_to_float(load_u16(src + 2 * i));
}

void dequantize_bf16(const std::byte* src, float* dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dst[i] = bfloat16_to_float(load_u16(src + 2 * i));
}

void dequantize_q8_0(const std::byte* src, float* dst, std::size_t n) {
  constexpr std::size_t kBlock = 32;
  for (std::size_t i = 0; i < n; i += kBlock, src += 2 + kBlock) {
    const float scale = half_to_float(load_u16(src));
    for (std::size_t j = 0; j < kBlock; ++j) {
      dst[i + j] = scale * static_cast<float>(std::to_integer<std::int8_t>(src[2 + j]));
    }
  }
}

}  // namespace sluice::kernels
