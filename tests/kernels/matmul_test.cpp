#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/cpu/dequantize.hpp"
#include "tests/kernels/kernel_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

struct Encoded {
  WeightMatrix matrix;
  std::vector<std::byte> bytes;
  std::vector<float> decoded;  ///< what the bytes stand for, by the plain functions
};

void append_u16(std::vector<std::byte>& out, std::uint32_t v) {
  out.push_back(static_cast<std::byte>(v & 0xFFU));
  out.push_back(static_cast<std::byte>(v >> 8 & 0xFFU));
}

/// Random weights of about unit size in any encoding. kOther is F16 that must be decoded by call.
Encoded random_weights(WeightEncoding encoding, std::size_t rows, std::size_t cols,
                       std::mt19937& random) {
  Encoded w;
  auto* dequantize = dequantize_f16;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random());
    switch (encoding) {
      case WeightEncoding::kF32: {
        const float v = std::normal_distribution<float>()(random);
        std::uint32_t word = 0;
        std::memcpy(&word, &v, 4);
        append_u16(w.bytes, word & 0xFFFFU);
        append_u16(w.bytes, word >> 16);
        dequantize = dequantize_f32;
        break;
      }
      case WeightEncoding::kBF16:  // exponents around 1
        append_u16(w.bytes, (bits & 0x80FFU) | 0x3F00U);
        dequantize = dequantize_bf16;
        break;
      case WeightEncoding::kQ8_0:
        if (i % 32 == 0) append_u16(w.bytes, 0x2000U + (bits & 0x3FFU));  // about 0.01
        w.bytes.push_back(static_cast<std::byte>(bits >> 16 & 0xFFU));
        dequantize = dequantize_q8_0;
        break;
      default:  // F16: exponents from subnormal to 1
        append_u16(w.bytes, bits & 0xBFFFU);
    }
  }
  w.decoded.resize(rows * cols);
  dequantize(w.bytes.data(), w.decoded.data(), w.decoded.size());
  w.matrix = {w.bytes.data(), rows, cols, w.bytes.size() / rows, encoding, dequantize};
  return w;
}

/// All rows at once, all outputs at once.
std::vector<float> product(const KernelTable& table, const Encoded& w, const std::vector<float>& x,
                           std::size_t rows) {
  std::vector<float> y(rows * w.matrix.rows, -1.0F);
  std::vector<float> space(matmul_workspace_floats(w.matrix.cols));
  table.matmul(w.matrix, {x.data(), w.matrix.cols, rows, y.data(), w.matrix.rows}, 0, w.matrix.rows,
               space.data());
  return y;
}

constexpr WeightEncoding kEncodings[] = {WeightEncoding::kF32, WeightEncoding::kF16,
                                         WeightEncoding::kBF16, WeightEncoding::kQ8_0,
                                         WeightEncoding::kOther};

template <class F>
void for_each_shape(const F& f) {
  for (const KernelTable* table : tables())
    for (const WeightEncoding encoding : kEncodings)
      for (const std::size_t cols : {1U, 5U, 64U, 172U, 288U})
        for (const std::size_t outputs : {1U, 6U, 70U}) {
          if (encoding == WeightEncoding::kQ8_0 && cols % 32 != 0) continue;
          CAPTURE(isa_name(table->isa), static_cast<int>(encoding), cols, outputs);
          f(*table, encoding, cols, outputs);
        }
}

}  // namespace

TEST_CASE("a matrix product agrees with sums in double precision") {
  std::mt19937 random(1);
  for_each_shape([&](const KernelTable& table, WeightEncoding encoding, std::size_t cols,
                     std::size_t outputs) {
    const std::size_t rows = 9;
    const Encoded w = random_weights(encoding, outputs, cols, random);
    const std::vector<float> x = random_floats(rows * cols, random);
    std::vector<double> expected(rows * outputs);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t o = 0; o < outputs; ++o)
        for (std::size_t k = 0; k < cols; ++k)
          expected[r * outputs + o] +=
              static_cast<double>(x[r * cols + k]) * static_cast<double>(w.decoded[o * cols + k]);
    CHECK(worst_difference(product(table, w, x, rows), expected) < 1e-4);
  });
}

TEST_CASE("a row of a matrix product does not depend on the number of rows") {
  std::mt19937 random(2);
  for_each_shape([&](const KernelTable& table, WeightEncoding encoding, std::size_t cols,
                     std::size_t outputs) {
    const Encoded w = random_weights(encoding, outputs, cols, random);
    const std::vector<float> x = random_floats(64 * cols, random);
    const std::vector<float> all = product(table, w, x, 64);
    for (const std::size_t rows : {1U, 2U, 3U, 7U, 64U})
      for (std::size_t first = 0; first + rows <= 64; first += 13) {
        const std::vector<float> part(
            x.begin() + static_cast<std::ptrdiff_t>(first * cols),
            x.begin() + static_cast<std::ptrdiff_t>((first + rows) * cols));
        const std::vector<float> y = product(table, w, part, rows);
        CHECK(same_bits(y.data(), all.data() + first * outputs, y.size()));
      }
  });
}

TEST_CASE("outputs of a matrix product do not depend on how their range is cut") {
  std::mt19937 random(3);
  for_each_shape([&](const KernelTable& table, WeightEncoding encoding, std::size_t cols,
                     std::size_t outputs) {
    const Encoded w = random_weights(encoding, outputs, cols, random);
    for (const std::size_t rows : {1U, 20U}) {
      const std::vector<float> x = random_floats(rows * cols, random);
      const std::vector<float> all = product(table, w, x, rows);
      std::vector<float> y(rows * outputs, -1.0F);
      std::vector<float> space(matmul_workspace_floats(cols));
      for (std::size_t begin = 0; begin < outputs;) {
        const std::size_t end = std::min<std::size_t>(begin + 1 + random() % 40, outputs);
        table.matmul(w.matrix, {x.data(), cols, rows, y.data(), outputs}, begin, end, space.data());
        begin = end;
      }
      CHECK(same_bits(y.data(), all.data(), y.size()));
    }
  });
}
