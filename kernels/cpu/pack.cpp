// From the blocks of a weight file to packed groups. Runs once, at load. Words are little-endian,
// as everything in such a file.
#include <array>
#include <cstring>

#include "kernels/cpu/block_bytes.hpp"
#include "kernels/cpu/packed_matrix.hpp"

namespace sluice::kernels {
namespace {

constexpr std::size_t kVectorBytes = 64;
constexpr std::size_t kVectors = kBlockCols / 4;

/// The place of one block of 16 rows in the packed matrix, and of one row in it.
struct Place {
  std::byte* header = nullptr;
  std::byte* quants = nullptr;
  std::size_t row = 0;        ///< 0 .. 15
  std::size_t in_header = 0;  ///< which of the blocks that share the header

  void put_half(std::size_t offset, const std::byte* half) const {
    std::memcpy(header + offset + 2 * row, half, 2);
  }
  void put_byte(std::size_t offset, int value) const {
    header[offset + row] = static_cast<std::byte>(value);
  }
};

/// 32 numbers of up to 8 bits, four to a word; column 4 v is the low byte of word v, so that the
/// word is what vector v has of a row.
using Numbers = std::array<std::uint32_t, kVectors>;

constexpr std::uint32_t each_byte(std::uint32_t value) {
  return value * 0x01010101U;
}

void put_word(const Place& place, std::size_t vector, std::uint32_t word) {
  std::memcpy(place.quants + vector * kVectorBytes + 4 * place.row, &word, 4);
}

void put_bytes(const Place& place, const Numbers& q) {
  for (std::size_t v = 0; v < kVectors; ++v) put_word(place, v, q[v]);
}

/// The low four bits: vector v holds columns 4v.. in its low and 16 + 4v.. in its high nibbles.
void put_nibbles(const Place& place, const Numbers& q) {
  constexpr std::uint32_t kLow = each_byte(15);
  for (std::size_t v = 0; v < kVectors / 2; ++v)
    put_word(place, v, (q[v] & kLow) | (q[v + kVectors / 2] & kLow) << 4);
}

/// Bit 4: eight bytes a vector, bit i of them for byte i of the vector.
void put_fifth_bits(const Place& place, const Numbers& q) {
  std::byte* plane = place.quants + kVectors / 2 * kVectorBytes;
  for (std::size_t v = 0; v < kVectors; ++v) {
    // The product brings bit 0 of the four bytes side by side to bits 24 to 27.
    const std::uint32_t four = (q[v] >> 4 & each_byte(1)) * 0x01020408U >> 24 & 15U;
    plane[8 * v + place.row / 2] |= static_cast<std::byte>(four << 4 * (place.row % 2));
  }
}

/// Bits 4 and 5: two vectors; bits 2 i of the first belong to vector i, of the second to 4 + i.
void put_upper_bits(const Place& place, const Numbers& q) {
  constexpr std::size_t kFour = kVectors / 2;
  for (std::size_t plane = 0; plane < 2; ++plane) {
    std::uint32_t word = 0;
    for (std::size_t v = 0; v < kFour; ++v)
      word |= (q[plane * kFour + v] >> 4 & each_byte(3)) << 2 * v;
    put_word(place, kFour + plane, word);
  }
}

// One row's block of each encoding. Layouts of the sources: dequantize.cpp and dequantize_k.cpp.

/// Word `v` of 32 bytes.
std::uint32_t word_at(const std::byte* bytes, std::size_t v) {
  return load_u32(bytes + 4 * v);
}

void pack_q8_0(const std::byte* row, std::size_t block, const Place& place) {
  const std::byte* src = row + block * 34;
  place.put_half(2 * kGroupRows * place.in_header, src);
  Numbers q{};
  // Adding 128 to a byte is turning its highest bit round.
  for (std::size_t v = 0; v < kVectors; ++v) q[v] = word_at(src + 2, v) ^ each_byte(128);
  put_bytes(place, q);
}

/// 32 numbers in 16 bytes: the low nibbles, then the high ones.
Numbers low_then_high(const std::byte* nibbles) {
  Numbers q{};
  for (std::size_t v = 0; v < kVectors / 2; ++v) {
    const std::uint32_t word = word_at(nibbles, v);
    q[v] = word & each_byte(15);
    q[v + kVectors / 2] = word >> 4 & each_byte(15);
  }
  return q;
}

/// Four bits to bit 4 of the four bytes of a word.
std::uint32_t spread_fifth(std::uint32_t four) {
  // The product puts bit i at 7 i, among others; of these, bits 0, 8, 16 and 24 are those of the
  // four copies that were shifted by i.
  return ((four & 15U) * 0x00204081U & each_byte(1)) << 4;
}

/// Q4_0, Q4_1, Q5_0, Q5_1: `halves` f16 numbers, perhaps the fifth bits, then nibbles.
template <std::size_t kHalves, bool kFive>
void pack_small(const std::byte* row, std::size_t block, const Place& place) {
  constexpr std::size_t kBitsAt = 2 * kHalves;
  constexpr std::size_t kNibblesAt = kBitsAt + (kFive ? 4 : 0);
  const std::byte* src = row + block * (kNibblesAt + kBlockCols / 2);
  for (std::size_t i = 0; i < kHalves; ++i)
    place.put_half(2 * kGroupRows * (i + place.in_header), src + 2 * i);
  Numbers q = low_then_high(src + kNibblesAt);
  if constexpr (kFive) {
    const std::uint32_t fifth = load_u32(src + kBitsAt);
    for (std::size_t v = 0; v < kVectors; ++v) q[v] |= spread_fifth(fifth >> 4 * v);
    put_fifth_bits(place, q);
  }
  put_nibbles(place, q);
}

/// Q4_K and Q5_K: d, dmin, 12 bytes of 6-bit scales and minima, perhaps fifth bits, nibbles.
template <bool kFive>
void pack_super(const std::byte* row, std::size_t block, const Place& place) {
  constexpr std::size_t kNibblesAt = kFive ? 48 : 16;
  const std::byte* src = row + block / 8 * (kNibblesAt + 128);
  const std::size_t g = block % 8;
  place.put_half(0, src);
  place.put_half(32, src + 2);
  const std::byte* packed = src + 4;
  int scale = byte_at(packed, g) & 63;
  int min = byte_at(packed, g + 4) & 63;
  if (g >= 4) {
    const int low = byte_at(packed, g + 4);
    scale = (low & 15) | byte_at(packed, g - 4) >> 6 << 4;
    min = low >> 4 | byte_at(packed, g) >> 6 << 4;
  }
  place.put_byte(64 + 32 * g, scale);
  place.put_byte(64 + 32 * g + 16, min);
  Numbers q{};
  for (std::size_t v = 0; v < kVectors; ++v) {
    q[v] = word_at(src + kNibblesAt + 32 * (g / 2), v) >> 4 * (g % 2) & each_byte(15);
    if constexpr (kFive) q[v] |= (word_at(src + 16, v) >> g & each_byte(1)) << 4;
  }
  put_nibbles(place, q);
  if constexpr (kFive) put_fifth_bits(place, q);
}

void pack_q6_k(const std::byte* row, std::size_t block, const Place& place) {
  const std::byte* src = row + block / 8 * 210;
  const std::size_t run = block % 8;
  place.put_half(0, src + 208);
  for (std::size_t half = 0; half < 2; ++half)
    place.put_byte(32 + 16 * (2 * run + half), byte_at(src, 192 + 2 * run + half));
  const std::byte* low = src + 64 * (run / 4) + 32 * (run % 2);
  const std::byte* high = src + 128 + 32 * (run / 4);
  Numbers q{};
  for (std::size_t v = 0; v < kVectors; ++v)
    q[v] = (word_at(low, v) >> 4 * (run % 4 / 2) & each_byte(15)) |
           (word_at(high, v) >> 2 * (run % 4) & each_byte(3)) << 4;
  put_nibbles(place, q);
  put_upper_bits(place, q);
}

/// Vector v of a block holds columns 2 v and 2 v + 1 of every row.
void pack_bf16(const std::byte* row, std::size_t block, const Place& place) {
  for (std::size_t v = 0; v < kBlockCols / 2; ++v)
    std::memcpy(place.quants + v * kVectorBytes + 4 * place.row,
                row + 2 * (block * kBlockCols + 2 * v), 4);
}

/// Vector v of a block holds column 2 v of all rows, then column 2 v + 1.
void pack_f16(const std::byte* row, std::size_t block, const Place& place) {
  for (std::size_t c = 0; c < kBlockCols; ++c)
    std::memcpy(place.quants + c * kVectorBytes / 2 + 2 * place.row,
                row + 2 * (block * kBlockCols + c), 2);
}

using PackBlock = void (*)(const std::byte* row, std::size_t block, const Place& place);

PackBlock pack_block(PackedFormat format) {
  switch (format) {
    case PackedFormat::kQ8_0:
      return pack_q8_0;
    case PackedFormat::kQ4_0:
      return pack_small<1, false>;
    case PackedFormat::kQ4_1:
      return pack_small<2, false>;
    case PackedFormat::kQ5_0:
      return pack_small<1, true>;
    case PackedFormat::kQ5_1:
      return pack_small<2, true>;
    case PackedFormat::kQ4_K:
      return pack_super<false>;
    case PackedFormat::kQ5_K:
      return pack_super<true>;
    case PackedFormat::kQ6_K:
      return pack_q6_k;
    case PackedFormat::kBF16:
      return pack_bf16;
    case PackedFormat::kF16:
      return pack_f16;
    case PackedFormat::kNone:
      break;
  }
  return nullptr;
}

}  // namespace

void pack_groups(PackedFormat format, const std::byte* src, std::size_t row_bytes, std::size_t rows,
                 std::size_t cols, std::size_t begin, std::size_t end, std::byte* packed) {
  const PackBlock pack = pack_block(format);
  if (pack == nullptr) return;
  const PackedShape shape = packed_shape(format);
  const std::size_t stretch = packed_stretch_bytes(format);
  const std::size_t group_bytes = packed_group_bytes(format, cols);
  for (std::size_t group = begin; group < end; ++group) {
    std::byte* out = packed + group * group_bytes;
    std::memset(out, 0, group_bytes);  // rows behind the last one stay zero
    for (std::size_t row = 0; row < kGroupRows && group * kGroupRows + row < rows; ++row) {
      const std::byte* from = src + (group * kGroupRows + row) * row_bytes;
      for (std::size_t block = 0; block < cols / kBlockCols; ++block) {
        std::byte* header = out + block / shape.header_blocks * stretch;
        const std::size_t in = block % shape.header_blocks;
        pack(from, block, {header, header + shape.header_bytes + in * shape.quant_bytes, row, in});
      }
    }
  }
}

}  // namespace sluice::kernels
