// Weight matrices repacked for integer dot products, and activations quantised to match.
//
// A packed matrix consists of groups of 16 output rows, and of blocks of 32 columns. The numbers
// of a group lie so that one vector holds 4 neighbouring columns of all 16 rows:
//   byte 4 r + c of vector v  =  row r, column 4 v + c
// so a vector instruction that adds four products to each 32-bit lane computes 16 outputs side by
// side, and no sum across lanes is ever needed. Values are kept exactly as the file has them; the
// same bits, in another place. Scales stand right before the numbers they belong to, so that a
// product reads one unbroken stream of cache lines: the processor then reads ahead by itself.
//   group  = [scales of blocks 0, 1][numbers of block 0][of block 1][scales of blocks 2, 3] ...
//
// Worked example, Q8_0 [4864 x 896]: 304 groups of 28 blocks; two blocks are 2 x 16 f16 scales and
// 2 x 16 x 32 numbers: 1088 bytes, a group 15232, as many as in the file.
//
// Activations are rounded to 8 bits in blocks of 32: x = q 2^k f. The factor f belongs to the
// row, the exponent k to the block, so that a sum over blocks of different size needs no
// multiplication: 2^k is an addition to the exponent of a float. The significand of f is the one
// of several that rounds the row best.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::kernels {

/// Encodings that can be packed. kNone: the matrix stays as it is in the file.
enum class PackedFormat : std::uint8_t {
  kNone,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kBF16,
  kF16
};

inline constexpr std::size_t kGroupRows = 16;
inline constexpr std::size_t kBlockCols = 32;

/// Bytes of a group's parts. A header serves `header_blocks` blocks.
struct PackedShape {
  std::size_t header_bytes = 0;
  std::size_t header_blocks = 1;
  std::size_t quant_bytes = 0;  ///< of one block of 16 rows
};

[[maybe_unused]] static constexpr PackedShape packed_shape(PackedFormat format) {
  switch (format) {
    case PackedFormat::kQ8_0:
      return {64, 2, 512};  // f16 d of two blocks
    case PackedFormat::kQ4_0:
      return {64, 2, 256};  // likewise
    case PackedFormat::kQ4_1:
      return {64, 1, 256};  // f16 d, f16 m
    case PackedFormat::kQ5_0:
      return {64, 2, 256 + 64};  // likewise; the fifth bits follow the nibbles
    case PackedFormat::kQ5_1:
      return {64, 1, 256 + 64};
    case PackedFormat::kQ4_K:
      return {64 + 8 * 32, 8, 256};  // f16 d, f16 dmin, eight times (u8 scale, u8 min)
    case PackedFormat::kQ5_K:
      return {64 + 8 * 32, 8, 256 + 64};
    case PackedFormat::kQ6_K:
      return {320, 8, 256 + 128};  // f16 d, sixteen i8 scales, 32 bytes of nothing
    case PackedFormat::kBF16:
      return {0, 1, 1024};  // two columns of 16 rows in a vector, side by side in each lane
    case PackedFormat::kF16:
      return {0, 1, 1024};  // two columns of 16 rows in a vector, one after the other
    case PackedFormat::kNone:
      break;
  }
  return {};
}

/// Bytes of a header and the blocks that it serves: whole cache lines.
[[maybe_unused]] static constexpr std::size_t packed_stretch_bytes(PackedFormat format) {
  const PackedShape shape = packed_shape(format);
  return shape.header_bytes + shape.header_blocks * shape.quant_bytes;
}

[[maybe_unused]] static constexpr std::size_t packed_group_bytes(PackedFormat format,
                                                                 std::size_t cols) {
  const PackedShape shape = packed_shape(format);
  const std::size_t blocks = cols / kBlockCols;  // the last header may serve fewer than it could
  const std::size_t headers = (blocks + shape.header_blocks - 1) / shape.header_blocks;
  return headers * shape.header_bytes + blocks * shape.quant_bytes;
}

/// Bytes of a packed matrix; rows are filled up to whole groups.
[[maybe_unused]] static constexpr std::size_t packed_bytes(PackedFormat format, std::size_t rows,
                                                           std::size_t cols) {
  return (rows + kGroupRows - 1) / kGroupRows * packed_group_bytes(format, cols);
}

/// Packs the groups [begin, end) of a matrix of `rows` rows, row_bytes apart in `src`, to where
/// they belong in `packed` (64-byte aligned, packed_bytes() long).
void pack_groups(PackedFormat format, const std::byte* src, std::size_t row_bytes, std::size_t rows,
                 std::size_t cols, std::size_t begin, std::size_t end, std::byte* packed);

// -- activations ------------------------------------------------------------------------------

/// 32 activations. Fields beside q are what a product needs ready to use.
struct QuantizedBlock {
  std::int8_t q[kBlockCols];
  std::int32_t correction;       ///< -128 x sum of q: weights are stored with 128 added
  std::int32_t half_correction;  ///< the same of the first 16
  std::int32_t exponent;         ///< k << 23, k from 0 to kExponentSpan
  float sum;                     ///< 2^k x sum of q, for weights with a minimum
};
static_assert(sizeof(QuantizedBlock) == 48);

/// Sums of the two halves of a block's numbers.
struct HalfSums {
  std::int32_t first = 0;
  std::int32_t second = 0;
};

/// Blocks that are more than so many powers of two below the row's largest are rounded with it.
inline constexpr std::int32_t kExponentSpan = 24;

/// A row starts with its factor, in a field of this size; then its blocks.
inline constexpr std::size_t kRowHeaderBytes = 16;

/// Bytes from one quantised row to the next: an odd number of cache lines, so that the rows of a
/// tile do not fall into the same cache set.
[[maybe_unused]] static constexpr std::size_t quantized_row_bytes(std::size_t cols) {
  const std::size_t bytes = kRowHeaderBytes + cols / kBlockCols * sizeof(QuantizedBlock);
  return (bytes + 63) / 64 * 64 + ((bytes + 63) / 64 % 2 == 0 ? 64 : 0);
}

/// Bytes from one prepared row to the next, for weights of this format: quantised, in bf16 or, for
/// f16 weights, in f32.
[[maybe_unused]] static constexpr std::size_t prepared_row_bytes(PackedFormat format,
                                                                 std::size_t cols) {
  if (format != PackedFormat::kBF16 && format != PackedFormat::kF16)
    return quantized_row_bytes(cols);
  const std::size_t lines = ((format == PackedFormat::kF16 ? 4 : 2) * cols + 63) / 64;
  return (lines + (lines % 2 == 0 ? 1 : 0)) * 64;
}

/// The most of them that any format needs.
[[maybe_unused]] static constexpr std::size_t prepared_row_bytes_max(std::size_t cols) {
  return prepared_row_bytes(PackedFormat::kF16, cols);
}

/// Bytes of work space for one thread of a packed product; 64-byte aligned.
std::size_t packed_workspace_bytes(std::size_t cols);

/// What a packed product reads and writes.
struct PackedOperands {
  const std::byte* weights = nullptr;  ///< packed
  PackedFormat format = PackedFormat::kNone;
  std::size_t cols = 0;
  const std::byte* x = nullptr;  ///< rows, prepared_row_bytes(format, cols) apart
  std::size_t rows = 0;
  float* y = nullptr;  ///< [rows x y_stride]
  std::size_t y_stride = 0;
};

/// The arithmetic with packed matrices of some formats for one instruction set. With integers,
/// every set gives the same bits.
struct PackedKernels {
  /// One row of `cols` activations, a multiple of 32, to prepared_row_bytes(format, cols) bytes. A
  /// row with a number that is not finite makes every output not a number.
  void (*prepare_row)(const float* x, std::size_t cols, std::byte* out) = nullptr;
  /// y[:, begin:end] = x W[begin:end]^T. Work space: packed_workspace_bytes(cols).
  void (*matmul)(const PackedOperands& operands, std::size_t begin, std::size_t end,
                 std::byte* workspace) = nullptr;
};

}  // namespace sluice::kernels
