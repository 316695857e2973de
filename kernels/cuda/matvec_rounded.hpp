// What the quantised weight types of matvec.hpp share: inputs as 8-bit codes, products of four
// codes at a time.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice::kernels::cuda {

/// Sixteen neighbouring codes.
struct Codes16 {
  int words[4];
};

/// `col` is a multiple of 16.
__device__ inline Codes16 load_codes16(const RoundedRows& x, std::int64_t first) {
  const int4 all = *reinterpret_cast<const int4*>(x.codes + first);
  return {{all.x, all.y, all.z, all.w}};
}

__device__ inline int dot16(const Codes16& a, const Codes16& b, int total) {
  for (int i = 0; i < 4; ++i) total = __dp4a(a.words[i], b.words[i], total);
  return total;
}

__device__ inline int sum16(const Codes16& x, int total) {
  for (int i = 0; i < 4; ++i) total = __dp4a(0x01010101, x.words[i], total);
  return total;
}

}  // namespace sluice::kernels::cuda
