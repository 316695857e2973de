// Packed products of 16-bit weights: bf16 with activations rounded to bf16, f16 with f32 ones.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/packed_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

struct HalfType {
  PackedFormat format;
  void (*dequantize)(const std::byte*, float*, std::size_t);
  std::uint32_t exponent;  ///< bits that make magnitudes around 1
  std::uint32_t random;    ///< bits that may be anything

  const PackedKernels& kernels() const { return kernel_table(best_isa()).packed_for(format); }
};

const HalfType kTypes[] = {{PackedFormat::kBF16, dequantize_bf16, 0x3F00, 0x80FF},
                           {PackedFormat::kF16, dequantize_f16, 0x3800, 0x87FF}};

struct Problem {
  HalfType type;
  std::size_t cols;
  std::size_t outputs;
  std::vector<float> decoded;
  AlignedBytes packed;
};

Problem random_problem(const HalfType& type, std::size_t cols, std::size_t outputs,
                       std::mt19937& random) {
  std::vector<std::byte> file(2 * cols * outputs);
  for (std::size_t i = 0; i < cols * outputs; ++i) {
    const auto half = static_cast<std::uint16_t>((random() & type.random) | type.exponent);
    std::memcpy(file.data() + 2 * i, &half, 2);
  }
  Problem p{type, cols, outputs, std::vector<float>(cols * outputs),
            AlignedBytes(packed_bytes(type.format, outputs, cols))};
  type.dequantize(file.data(), p.decoded.data(), p.decoded.size());
  pack_groups(type.format, file.data(), 2 * cols, outputs, cols, 0, (outputs + 15) / 16,
              p.packed.data());
  return p;
}

AlignedBytes prepared(const HalfType& type, const std::vector<float>& x, std::size_t cols) {
  const std::size_t stride = prepared_row_bytes(type.format, cols);
  AlignedBytes out(x.size() / cols * stride);
  for (std::size_t r = 0; r < x.size() / cols; ++r)
    type.kernels().prepare_row(x.data() + r * cols, cols, out.data() + r * stride);
  return out;
}

/// The activations that a prepared row stands for.
std::vector<float> restored_row(const HalfType& type, const std::byte* row, std::size_t cols) {
  std::vector<float> x(cols);
  if (type.format == PackedFormat::kBF16)
    dequantize_bf16(row, x.data(), cols);
  else
    dequantize_f32(row, x.data(), cols);
  return x;
}

std::vector<float> product(const Problem& p, const std::byte* x, std::size_t rows) {
  std::vector<float> y(rows * p.outputs, -1.0F);
  p.type.kernels().matmul({p.packed.data(), p.type.format, p.cols, x, rows, y.data(), p.outputs}, 0,
                          p.outputs, nullptr);
  return y;
}

template <class F>
void for_each_problem(unsigned seed, const F& f) {
  std::mt19937 random(seed);
  for (const HalfType& type : kTypes) {
    if (type.kernels().matmul == nullptr) continue;
    for (const std::size_t cols : {32U, 96U, 896U})
      for (const std::size_t outputs : {1U, 16U, 70U}) {
        CAPTURE(static_cast<int>(type.format), cols, outputs);
        f(random_problem(type, cols, outputs, random), random);
      }
  }
}

}  // namespace

TEST_CASE("packed products of 16 bit weights agree with sums in double precision") {
  for_each_problem(1, [](const Problem& p, std::mt19937& random) {
    const std::size_t rows = 27;
    const std::vector<float> x = random_floats(rows * p.cols, random);
    const AlignedBytes ready = prepared(p.type, x, p.cols);
    std::vector<double> expected(rows * p.outputs);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::vector<float> row = restored_row(
          p.type, ready.data() + r * prepared_row_bytes(p.type.format, p.cols), p.cols);
      float farthest = 0;
      for (std::size_t k = 0; k < p.cols; ++k)
        farthest = std::max(farthest, std::abs(row[k] / x[r * p.cols + k] - 1.0F));
      CHECK(farthest <= 1.0F / 256.0F);
      for (std::size_t o = 0; o < p.outputs; ++o)
        for (std::size_t k = 0; k < p.cols; ++k)
          expected[r * p.outputs + o] +=
              static_cast<double>(row[k]) * static_cast<double>(p.decoded[o * p.cols + k]);
    }
    CHECK(worst_difference(product(p, ready.data(), rows), expected) < 1e-3);
  });
}

TEST_CASE("packed products of 16 bit weights depend neither on rows nor on cuts") {
  for_each_problem(2, [](const Problem& p, std::mt19937& random) {
    const std::size_t rows = 27;
    const std::size_t stride = prepared_row_bytes(p.type.format, p.cols);
    const AlignedBytes x = prepared(p.type, random_floats(rows * p.cols, random), p.cols);
    const std::vector<float> all = product(p, x.data(), rows);
    for (const std::size_t count : {1U, 2U, 5U, 12U, 13U}) {
      const std::vector<float> y = product(p, x.data() + 3 * stride, count);
      CHECK(same_bits(y.data(), all.data() + 3 * p.outputs, y.size()));
    }
    std::vector<float> y(rows * p.outputs, -1.0F);
    for (std::size_t begin = 0; begin < p.outputs;) {
      const std::size_t end = std::min<std::size_t>(begin + 1 + random() % 40, p.outputs);
      p.type.kernels().matmul(
          {p.packed.data(), p.type.format, p.cols, x.data(), rows, y.data(), p.outputs}, begin, end,
          nullptr);
      begin = end;
    }
    CHECK(same_bits(y.data(), all.data(), y.size()));
  });
}

TEST_CASE("rounding to bf16 is to the nearest and keeps what is not finite") {
  const HalfType& type = kTypes[0];
  if (type.kernels().matmul == nullptr) return;
  std::vector<float> x(32, 1.0F);
  x[1] = 1.0F + 0x1p-8F;             // a tie: to the even neighbour
  x[2] = 1.0F + 0x1p-8F + 0x1p-20F;  // a little more: up
  x[3] = std::numeric_limits<float>::infinity();
  x[4] = std::numeric_limits<float>::quiet_NaN();
  const AlignedBytes out = prepared(type, x, 32);
  const std::vector<float> back = restored_row(type, out.data(), 32);
  CHECK(back[0] == 1.0F);
  CHECK(back[1] == 1.0F);
  CHECK(back[2] == 1.0F + 0x1p-7F);
  CHECK(std::isinf(back[3]));
  CHECK(std::isnan(back[4]));
}

TEST_CASE("no format needs more room for a row than the largest") {
  for (const std::size_t cols : {32U, 64U, 896U, 4864U, 11008U}) {
    CHECK(prepared_row_bytes(PackedFormat::kBF16, cols) <= prepared_row_bytes_max(cols));
    for (const PackedType& type : packed_types())
      CHECK(prepared_row_bytes(type.format, cols) <= prepared_row_bytes_max(cols));
  }
}
