// The types whose four bits choose from a table. Layouts: ggml, ggml-common.h.
#include <array>
#include <cmath>

#include "kernels/cpu/block_bytes.hpp"
#include "kernels/cpu/dequantize.hpp"

namespace sluice::kernels {
namespace {

/// Part of the file format, like the layout.
constexpr std::array<float, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

/// Twice the value of a four-bit float.
constexpr std::array<float, 16> kTwiceFp4 = {0, 1,  2,  3,  4,  6,  8,  12,
                                             0, -1, -2, -3, -4, -6, -8, -12};

constexpr std::size_t kBlock = 32;

/// 16 bytes: low nibbles are the first 16 elements, high nibbles the others.
void expand(const std::byte* q, const std::array<float, 16>& values, float scale, float* dst) {
  for (std::size_t j = 0; j < kBlock / 2; ++j) {
    dst[j] = scale * values[static_cast<std::size_t>(byte_at(q, j) & 15)];
    dst[j + kBlock / 2] = scale * values[static_cast<std::size_t>(byte_at(q, j) >> 4)];
  }
}

}  // namespace

// d, 16 bytes.
void dequantize_iq4_nl(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 18)
    expand(src + 2, kValues, load_half(src), dst);
}

// d, u16 of upper two bits and 4 bytes of lower four bits of eight scales (less 32), 128 bytes.
void dequantize_iq4_xs(const std::byte* src, float* dst, std::size_t n) {
  constexpr std::size_t kSuper = 256;
  for (; n != 0; n -= kSuper, src += 136) {
    const float d = load_half(src);
    const int upper = load_u16(src + 2);
    for (std::size_t block = 0; block < 8; ++block, dst += kBlock) {
      const int low = (byte_at(src, 4 + block / 2) >> (4 * (block % 2))) & 15;
      const int high = (upper >> (2 * block)) & 3;
      expand(src + 8 + 16 * block, kValues, d * static_cast<float>((low | high << 4) - 32), dst);
    }
  }
}

// A byte e, the scale being 2^(e - 127), then 16 bytes.
void dequantize_mxfp4(const std::byte* src, float* dst, std::size_t n) {
  for (; n != 0; n -= kBlock, dst += kBlock, src += 17)
    expand(src + 1, kTwiceFp4, std::ldexp(0.5F, byte_at(src, 0) - 127), dst);
}

}  // namespace sluice::kernels
