// Packed matrices for tests: random blocks of every format, with what they stand for.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/dequantize.hpp"
#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::test {

/// Bytes on a cache line, as packed data and quantised rows must be.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t n) : lines_((n + 63) / 64 + 1) {}
  std::byte* data() { return lines_.front().bytes; }
  const std::byte* data() const { return lines_.front().bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

struct PackedType {
  PackedFormat format;
  std::size_t block;                ///< elements
  std::size_t block_bytes;          ///< in a file
  std::vector<std::size_t> halves;  ///< where f16 numbers stand in a block
  void (*dequantize)(const std::byte*, float*, std::size_t);
};

inline const std::vector<PackedType>& packed_types() {
  static const std::vector<PackedType> types = {
      {PackedFormat::kQ8_0, 32, 34, {0}, dequantize_q8_0},
      {PackedFormat::kQ4_0, 32, 18, {0}, dequantize_q4_0},
      {PackedFormat::kQ4_1, 32, 20, {0, 2}, dequantize_q4_1},
      {PackedFormat::kQ5_0, 32, 22, {0}, dequantize_q5_0},
      {PackedFormat::kQ5_1, 32, 24, {0, 2}, dequantize_q5_1},
      {PackedFormat::kQ4_K, 256, 144, {0, 2}, dequantize_q4_k},
      {PackedFormat::kQ5_K, 256, 176, {0, 2}, dequantize_q5_k},
      {PackedFormat::kQ6_K, 256, 210, {208}, dequantize_q6_k},
  };
  return types;
}

struct PackedWeights {
  PackedType type;
  std::size_t rows;
  std::size_t cols;
  std::vector<std::byte> file;  ///< as in a weight file
  AlignedBytes packed;
  std::vector<float> decoded;  ///< [rows x cols], by the plain functions
};

/// Blocks of random bits with scales of about 2^-7.
inline PackedWeights random_packed(const PackedType& type, std::size_t rows, std::size_t cols,
                                   std::mt19937& random) {
  PackedWeights w{type,
                  rows,
                  cols,
                  std::vector<std::byte>(rows * cols / type.block * type.block_bytes),
                  AlignedBytes(packed_bytes(type.format, rows, cols)),
                  std::vector<float>(rows * cols)};
  for (std::byte& b : w.file) b = static_cast<std::byte>(random());
  for (std::size_t block = 0; block < rows * cols / type.block; ++block)
    for (const std::size_t at : type.halves) {
      const std::uint32_t bits = static_cast<std::uint32_t>(random());
      const auto half = static_cast<std::uint16_t>(0x2000U + (bits & 0x83FFU));
      std::memcpy(w.file.data() + block * type.block_bytes + at, &half, 2);
    }
  type.dequantize(w.file.data(), w.decoded.data(), w.decoded.size());
  pack_groups(type.format, w.file.data(), w.file.size() / rows, rows, cols, 0,
              (rows + kGroupRows - 1) / kGroupRows, w.packed.data());
  return w;
}

/// Quantised rows [rows x cols].
inline AlignedBytes quantized(const KernelTable& table, const std::vector<float>& x,
                              std::size_t cols) {
  const std::size_t rows = x.size() / cols;
  AlignedBytes out(rows * quantized_row_bytes(cols));
  for (std::size_t r = 0; r < rows; ++r)
    table.packed.prepare_row(x.data() + r * cols, cols, out.data() + r * quantized_row_bytes(cols));
  return out;
}

/// What a quantised row stands for.
inline std::vector<double> restored(const std::byte* row, std::size_t cols) {
  float factor = 0;
  std::memcpy(&factor, row, sizeof(factor));
  std::vector<double> x;
  for (std::size_t j = 0; j < cols / kBlockCols; ++j) {
    QuantizedBlock block;
    std::memcpy(&block, row + kRowHeaderBytes + j * sizeof(block), sizeof(block));
    const double step = std::ldexp(static_cast<double>(factor), block.exponent >> 23);
    for (const std::int8_t q : block.q) x.push_back(q * step);
  }
  return x;
}

/// All outputs of some quantised rows.
inline std::vector<float> packed_product(const KernelTable& table, const PackedWeights& w,
                                         const std::byte* x, std::size_t rows) {
  std::vector<float> y(rows * w.rows, -1.0F);
  AlignedBytes space(packed_workspace_bytes(w.cols));
  table.packed.matmul({w.packed.data(), w.type.format, w.cols, x, rows, y.data(), w.rows}, 0,
                      w.rows, space.data());
  return y;
}

}  // namespace sluice::kernels::test
