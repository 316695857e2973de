// What the quantised weight types of matvec.hpp share: inputs as 8-bit codes, products of four
// codes at a time.
#pragma once

#include "kernels/cuda/matvec.hpp"
#include "kernels/cuda/weight_blocks.hpp"

namespace sluice::kernels::cuda {

/// Sixteen neighbouring codes.
struct Codes16 {
  int words[4];
};

/// From an address that is a multiple of 16.
__device__ inline Codes16 load_codes16(const void* at) {
  const int4 all = *static_cast<const int4*>(at);
  return {{all.x, all.y, all.z, all.w}};
}
/// `first` is a multiple of 16.
__device__ inline Codes16 load_codes16(const RoundedRows& x, std::int64_t first) {
  return load_codes16(x.codes + first);
}
/// From an address that is a multiple of 2.
__device__ inline Codes16 gather_codes16(const unsigned char* at) {
  Codes16 codes;
  SLUICE_UNROLL
  for (int i = 0; i < 4; ++i) codes.words[i] = static_cast<int>(load_u32(at + 4 * i));
  return codes;
}

__device__ inline int dot16(const Codes16& a, const Codes16& b, int total) {
  for (int i = 0; i < 4; ++i) total = __dp4a(a.words[i], b.words[i], total);
  return total;
}

/// The kernel of a matrix whose blocks may have been arranged.
template <template <bool> class W>
LaunchStatus launch_arranged(const char* name, const Matvec& operands, std::int32_t rows,
                             Stream stream) {
  return operands.weights.arranged ? launch_matvec<W<true>>(name, operands, rows, stream)
                                   : launch_matvec<W<false>>(name, operands, rows, stream);
}

__device__ inline int sum16(const Codes16& x, int total) {
  for (int i = 0; i < 4; ++i) total = __dp4a(0x01010101, x.words[i], total);
  return total;
}

}  // namespace sluice::kernels::cuda
