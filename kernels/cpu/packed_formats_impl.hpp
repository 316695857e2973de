// How packed weights are read: header -> scales, numbers -> vectors of unsigned bytes. One struct a
// format; packed_tile_impl.hpp is written against their members.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {

inline constexpr std::size_t kPackedVectors = kBlockCols / 4;  ///< of 64 bytes, in a block

template <class S>
struct BlockScales {
  typename S::Flt scale;
  typename S::Flt second;  ///< of the second half, where there is one
  typename S::Flt min;     ///< where there is one
};

/// Sizes of a format. `kPlus`: what was added to the weights to make them unsigned, as a shift of
/// 128 (32: nothing); `kEightBits`: numbers use all eight bits.
template <PackedFormat kWhich, int kPlus, bool kEightBits = false>
struct PackedLayout {
  static constexpr PackedFormat kFormat = kWhich;
  static constexpr std::size_t kHeaderBytes = packed_shape(kWhich).header_bytes;
  static constexpr std::size_t kQuantBytes = packed_shape(kWhich).quant_bytes;
  static constexpr int kAdded = kPlus;
  static constexpr bool kWide = kEightBits;
};

/// Eight vectors from four of nibbles.
template <class S>
void unpack_nibbles(const std::byte* quants, typename S::Bytes* w) {
  constexpr std::size_t kHalf = kPackedVectors / 2;
#pragma GCC unroll 4
  for (std::size_t v = 0; v < kHalf; ++v) {
    const typename S::Bytes both = S::load(quants + 64 * v);
    w[v] = S::low_nibbles(both);
    w[v + kHalf] = S::high_nibbles(both);
  }
}

template <class S>
void unpack_five_bits(const std::byte* quants, typename S::Bytes* w) {
  unpack_nibbles<S>(quants, w);
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kPackedVectors; ++v)
    w[v] = S::add_where(w[v], quants + 256 + 8 * v, 16);
}

template <class S, bool kHasMin>
struct HalfScales {
  static constexpr std::size_t kHeaderBlocks = kHasMin ? 1 : 2;
  static constexpr bool kMin = kHasMin;
  static constexpr bool kHalves = false;
  static BlockScales<S> scales(const std::byte* header, std::size_t block) {
    BlockScales<S> s;
    s.scale = S::load_f16(header + 32 * block);
    if constexpr (kHasMin) s.min = S::negate(S::load_f16(header + 32));
    return s;
  }
};

template <class S>
struct SuperScales {
  static constexpr std::size_t kHeaderBlocks = 8;
  static constexpr bool kMin = true;
  static constexpr bool kHalves = false;
  static BlockScales<S> scales(const std::byte* header, std::size_t block) {
    const std::byte* small = header + 64 + 32 * block;
    BlockScales<S> s;
    s.scale = S::mul(S::load_f16(header), S::load_u8(small));
    s.min = S::mul(S::load_f16(header + 32), S::load_u8(small + 16));
    return s;
  }
};

/// Numbers of four bits.
template <class S>
struct Nibbles {
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_nibbles<S>(quants, w);
  }
};

template <class S>
struct FiveBits {
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_five_bits<S>(quants, w);
  }
};

template <class S>
struct PackedQ80 : PackedLayout<PackedFormat::kQ8_0, 0, true>, HalfScales<S, false> {
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kPackedVectors; ++v) w[v] = S::load(quants + 64 * v);
  }
};
template <class S>
struct PackedQ40 : PackedLayout<PackedFormat::kQ4_0, 4>, HalfScales<S, false>, Nibbles<S> {};
template <class S>
struct PackedQ41 : PackedLayout<PackedFormat::kQ4_1, 32>, HalfScales<S, true>, Nibbles<S> {};
template <class S>
struct PackedQ50 : PackedLayout<PackedFormat::kQ5_0, 3>, HalfScales<S, false>, FiveBits<S> {};
template <class S>
struct PackedQ51 : PackedLayout<PackedFormat::kQ5_1, 32>, HalfScales<S, true>, FiveBits<S> {};
template <class S>
struct PackedQ4K : PackedLayout<PackedFormat::kQ4_K, 32>, SuperScales<S>, Nibbles<S> {};
template <class S>
struct PackedQ5K : PackedLayout<PackedFormat::kQ5_K, 32>, SuperScales<S>, FiveBits<S> {};
template <class S>
struct PackedQ6K : PackedLayout<PackedFormat::kQ6_K, 2> {
  static constexpr std::size_t kHeaderBlocks = 8;
  static constexpr bool kMin = false;
  static constexpr bool kHalves = true;
  static BlockScales<S> scales(const std::byte* header, std::size_t block) {
    const typename S::Flt d = S::load_f16(header);
    BlockScales<S> s;
    s.scale = S::mul(d, S::load_i8(header + 32 + 32 * block));
    s.second = S::mul(d, S::load_i8(header + 32 + 32 * block + 16));
    return s;
  }
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    unpack_nibbles<S>(quants, w);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
      const typename S::Bytes upper = S::load(quants + 256 + 64 * half);
      w[4 * half + 0] = S::template add_upper<0>(w[4 * half + 0], upper);
      w[4 * half + 1] = S::template add_upper<2>(w[4 * half + 1], upper);
      w[4 * half + 2] = S::template add_upper<4>(w[4 * half + 2], upper);
      w[4 * half + 3] = S::template add_upper<6>(w[4 * half + 3], upper);
    }
  }
};

/// What packed_decoded leaves in its buffer: f32 scales, then bytes with 128 added.
template <class S, bool kHasMin, bool kHasHalves>
struct DecodedWeights {
  static constexpr std::size_t kHeaderBlocks = 1;
  static constexpr bool kMin = kHasMin;
  static constexpr bool kHalves = kHasHalves;
  static constexpr int kAdded = 0;
  static constexpr bool kWide = true;
  static constexpr std::size_t kHeaderBytes = 64 * (1 + (kMin ? 1 : 0) + (kHalves ? 1 : 0));
  static constexpr std::size_t kQuantBytes = 64 * kPackedVectors;
  static constexpr std::size_t kBytes = kHeaderBytes + 64 * kPackedVectors;  ///< of a block
  static BlockScales<S> scales(const std::byte* header, std::size_t) {
    BlockScales<S> s;
    s.scale = S::load_floats(header);
    if constexpr (kMin || kHalves) (kMin ? s.min : s.second) = S::load_floats(header + 64);
    return s;
  }
  static void unpack(const std::byte* quants, typename S::Bytes* w) {
    PackedQ80<S>::unpack(quants, w);
  }
};

}  // namespace sluice::kernels
