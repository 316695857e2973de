#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/packed_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

QuantizedBlock block_of(const AlignedBytes& row, std::size_t j) {
  QuantizedBlock block;
  std::memcpy(&block, row.data() + kRowHeaderBytes + j * sizeof(block), sizeof(block));
  return block;
}

float factor_of(const AlignedBytes& row) {
  float factor = 0;
  std::memcpy(&factor, row.data(), sizeof(factor));
  return factor;
}

}  // namespace

TEST_CASE("a rounded activation is within one hundred and twenty-seventh of its block's largest") {
  std::mt19937 random(1);
  for (const KernelTable* table : tables())
    for (int round = 0; round < 50; ++round) {
      std::vector<float> x = random_floats(320, random);
      // Blocks of very different size, as outliers make them.
      for (std::size_t j = 0; j < 10; ++j)
        for (std::size_t c = 0; c < 32; ++c)
          x[32 * j + c] *= std::ldexp(1.0F, static_cast<int>(random() % 12) * (round % 2));
      const AlignedBytes q = quantized(*table, x, 320);
      const std::vector<double> back = restored(q.data(), 320);
      for (std::size_t j = 0; j < 10; ++j) {
        double largest = 0.0;
        for (std::size_t c = 0; c < 32; ++c)
          largest = std::max(largest, std::abs(static_cast<double>(x[32 * j + c])));
        // Half a step; a step is at most two 127ths.
        for (std::size_t c = 0; c < 32; ++c)
          CHECK(std::abs(back[32 * j + c] - static_cast<double>(x[32 * j + c])) <=
                largest / 127.0 * 1.00001);
      }
    }
}

TEST_CASE("the sums beside rounded activations are those of their numbers") {
  std::mt19937 random(2);
  for (const KernelTable* table : tables()) {
    const AlignedBytes q = quantized(*table, random_floats(320, random), 320);
    for (std::size_t j = 0; j < 10; ++j) {
      const QuantizedBlock block = block_of(q, j);
      int first = 0;
      int all = 0;
      for (std::size_t c = 0; c < 32; ++c) {
        first += c < 16 ? block.q[c] : 0;
        all += block.q[c];
      }
      CHECK(block.correction == -128 * all);
      CHECK(block.half_correction == -128 * first);
      CHECK(block.sum == std::ldexp(static_cast<float>(all), block.exponent >> 23));
    }
  }
}

TEST_CASE("blocks that are much alike lose little to sharing a significand") {
  std::mt19937 random(3);
  const KernelTable& table = kernel_table(best_isa());
  double shared = 0.0;
  double own = 0.0;
  for (int round = 0; round < 30; ++round) {
    const std::vector<float> x = random_floats(1024, random, 0.37F * static_cast<float>(round + 1));
    const AlignedBytes q = quantized(table, x, 1024);
    const std::vector<double> back = restored(q.data(), 1024);
    for (std::size_t i = 0; i < x.size(); ++i) {
      double largest = 0.0;
      for (std::size_t c = 0; c < 32; ++c)
        largest = std::max(largest, std::abs(static_cast<double>(x[i / 32 * 32 + c])));
      const double scale = largest / 127.0;
      const double mine = static_cast<double>(x[i]);
      shared += (back[i] - mine) * (back[i] - mine) / (scale * scale);
      const double rounded = std::nearbyint(mine / scale) * scale;
      own += (rounded - mine) * (rounded - mine) / (scale * scale);
    }
  }
  CHECK(std::sqrt(shared / own) < 1.45);
}

TEST_CASE("rows of zeros and of what is not finite") {
  for (const KernelTable* table : tables()) {
    CHECK(factor_of(quantized(*table, std::vector<float>(64, 0.0F), 64)) == 0.0F);
    CHECK(factor_of(quantized(*table, std::vector<float>(64, 1e-30F), 64)) == 0.0F);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x(64, 1.0F);
      x[40] = bad;
      const AlignedBytes q = quantized(*table, x, 64);
      CHECK(std::isnan(factor_of(q)));
      std::mt19937 random(4);
      for (const PackedType& type : packed_types()) {
        if (type.block > 64) continue;
        const PackedWeights w = random_packed(type, 3, 64, random);
        for (const float y : packed_product(*table, w, q.data(), 1)) CHECK(std::isnan(y));
      }
    }
    // The largest floats there are.
    const AlignedBytes q =
        quantized(*table, std::vector<float>(64, std::numeric_limits<float>::max()), 64);
    for (const double v : restored(q.data(), 64))
      CHECK(v == Approx(static_cast<double>(std::numeric_limits<float>::max())).epsilon(0.01));
  }
}
