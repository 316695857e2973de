// Rounding of 32 activations in plain C++, for instruction sets without a faster way. A template,
// so that each set has a copy of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

template <class S>
struct PlainRounding {
  /// The largest |x| of a block, as the bits of a float; infinities and what is not a number are
  /// larger than every number.
  static std::uint32_t largest_magnitude(const float* x) {
    std::uint32_t largest = 0;
    for (std::size_t c = 0; c < kBlockCols; ++c) {
      std::uint32_t bits = 0;
      __builtin_memcpy(&bits, x + c, sizeof(bits));
      bits &= 0x7FFFFFFFU;
      largest = largest > bits ? largest : bits;
    }
    return largest;
  }

  /// q = x times `inverse`, rounded to the nearest, ties to even; |x inverse| is at most 127.
  static HalfSums round_block(const float* x, float inverse, std::int8_t* q) {
    constexpr float kMagic = 12582912.0F;  // 1.5 x 2^23: adding it leaves no room for a fraction
    std::int32_t rounded[kBlockCols];
    for (std::size_t c = 0; c < kBlockCols; ++c) {
      const float shifted = x[c] * inverse + kMagic;
      __builtin_memcpy(rounded + c, &shifted, sizeof(shifted));
      rounded[c] -= 0x4B400000;
    }
    HalfSums sums;
    for (std::size_t c = 0; c < kBlockCols / 2; ++c) {
      sums.first += rounded[c];
      sums.second += rounded[c + kBlockCols / 2];
    }
    for (std::size_t c = 0; c < kBlockCols; ++c) q[c] = static_cast<std::int8_t>(rounded[c]);
    return sums;
  }
};

}  // namespace sluice::kernels
