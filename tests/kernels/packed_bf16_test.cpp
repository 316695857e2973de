#include <bit>
#include <catch2/catch.hpp>
#include <limits>

#include "tests/kernels/packed_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

const PackedType kType = {PackedFormat::kBF16, 1, 2, {}, dequantize_bf16};

struct Problem {
  std::size_t cols;
  std::size_t outputs;
  std::vector<float> decoded;
  AlignedBytes packed;
};

Problem random_problem(std::size_t cols, std::size_t outputs, std::mt19937& random) {
  std::vector<std::byte> file(2 * cols * outputs);
  for (std::size_t i = 0; i < cols * outputs; ++i) {  // magnitudes around 1
    const auto half = static_cast<std::uint16_t>((random() & 0x80FFU) | 0x3F00U);
    std::memcpy(file.data() + 2 * i, &half, 2);
  }
  Problem p{cols, outputs, std::vector<float>(cols * outputs),
            AlignedBytes(packed_bytes(kType.format, outputs, cols))};
  dequantize_bf16(file.data(), p.decoded.data(), p.decoded.size());
  pack_groups(kType.format, file.data(), 2 * cols, outputs, cols, 0, (outputs + 15) / 16,
              p.packed.data());
  return p;
}

AlignedBytes rounded(const PackedKernels& kernels, const std::vector<float>& x, std::size_t cols) {
  const std::size_t stride = prepared_row_bytes(PackedFormat::kBF16, cols);
  AlignedBytes out(x.size() / cols * stride);
  for (std::size_t r = 0; r < x.size() / cols; ++r)
    kernels.prepare_row(x.data() + r * cols, cols, out.data() + r * stride);
  return out;
}

std::vector<float> product(const PackedKernels& kernels, const Problem& p, const std::byte* x,
                           std::size_t rows) {
  std::vector<float> y(rows * p.outputs, -1.0F);
  kernels.matmul({p.packed.data(), PackedFormat::kBF16, p.cols, x, rows, y.data(), p.outputs}, 0,
                 p.outputs, nullptr);
  return y;
}

}  // namespace

TEST_CASE(
    "products in bf16 agree with sums in double precision and do not depend on rows or cuts") {
  const PackedKernels& kernels = kernel_table(best_isa()).packed_bf16;
  if (kernels.matmul == nullptr) return;
  std::mt19937 random(1);
  for (const std::size_t cols : {32U, 96U, 896U})
    for (const std::size_t outputs : {1U, 16U, 70U}) {
      CAPTURE(cols, outputs);
      const Problem p = random_problem(cols, outputs, random);
      const std::size_t rows = 27;
      const std::size_t stride = prepared_row_bytes(PackedFormat::kBF16, cols);
      const AlignedBytes x = rounded(kernels, random_floats(rows * cols, random), cols);
      const std::vector<float> all = product(kernels, p, x.data(), rows);
      std::vector<double> expected(rows * outputs);
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<float> row(cols);
        dequantize_bf16(x.data() + r * stride, row.data(), cols);
        for (std::size_t o = 0; o < outputs; ++o)
          for (std::size_t k = 0; k < cols; ++k)
            expected[r * outputs + o] +=
                static_cast<double>(row[k]) * static_cast<double>(p.decoded[o * cols + k]);
      }
      CHECK(worst_difference(all, expected) < 1e-3);
      for (const std::size_t count : {1U, 2U, 5U, 12U, 13U}) {
        const std::vector<float> y = product(kernels, p, x.data() + 3 * stride, count);
        CHECK(same_bits(y.data(), all.data() + 3 * outputs, y.size()));
      }
      std::vector<float> y(rows * outputs, -1.0F);
      for (std::size_t begin = 0; begin < outputs;) {
        const std::size_t end = std::min<std::size_t>(begin + 1 + random() % 40, outputs);
        kernels.matmul(
            {p.packed.data(), PackedFormat::kBF16, cols, x.data(), rows, y.data(), outputs}, begin,
            end, nullptr);
        begin = end;
      }
      CHECK(same_bits(y.data(), all.data(), y.size()));
    }
}

TEST_CASE("rounding to bf16 is to the nearest and keeps what is not finite") {
  const PackedKernels& kernels = kernel_table(best_isa()).packed_bf16;
  if (kernels.matmul == nullptr) return;
  std::vector<float> x(32, 1.0F);
  x[1] = 1.0F + 0x1p-8F;             // a tie: to the even neighbour
  x[2] = 1.0F + 0x1p-8F + 0x1p-20F;  // a little more: up
  x[3] = std::numeric_limits<float>::infinity();
  x[4] = std::numeric_limits<float>::quiet_NaN();
  const AlignedBytes out = rounded(kernels, x, 32);
  std::vector<float> back(32);
  dequantize_bf16(out.data(), back.data(), 32);
  CHECK(back[0] == 1.0F);
  CHECK(back[1] == 1.0F);
  CHECK(back[2] == 1.0F + 0x1p-7F);
  CHECK(std::isinf(back[3]));
  CHECK(std::isnan(back[4]));
}
