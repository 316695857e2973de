#include <catch2/catch.hpp>
#include <cmath>

#include "tests/kernels/packed_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

/// Every format with some shapes: whole and partial groups, one and several blocks.
template <class F>
void for_each_matrix(unsigned seed, const F& f) {
  std::mt19937 random(seed);
  for (const PackedType& type : packed_types())
    for (const std::size_t blocks : {1U, 3U})
      for (const std::size_t outputs : {1U, 16U, 70U}) {
        const std::size_t cols = blocks * std::max<std::size_t>(type.block, 96);
        const PackedWeights w = random_packed(type, outputs, cols, random);
        CAPTURE(static_cast<int>(type.format), cols, outputs);
        f(w, random);
      }
}

}  // namespace

TEST_CASE("a packed product is the sum over rounded activations and decoded weights") {
  for_each_matrix(1, [](const PackedWeights& w, std::mt19937& random) {
    const std::size_t rows = 19;
    const std::vector<float> x = random_floats(rows * w.cols, random);
    for (const KernelTable* table : tables()) {
      CAPTURE(isa_name(table->isa));
      const AlignedBytes q = quantized(*table, x, w.cols);
      std::vector<double> expected;
      double largest = 0.0;
      for (std::size_t r = 0; r < rows; ++r) {
        const std::vector<double> row =
            restored(q.data() + r * quantized_row_bytes(w.cols), w.cols);
        for (std::size_t o = 0; o < w.rows; ++o) {
          double sum = 0.0;
          for (std::size_t k = 0; k < w.cols; ++k)
            sum += row[k] * static_cast<double>(w.decoded[o * w.cols + k]);
          expected.push_back(sum);
          largest = std::max(largest, std::abs(sum));
        }
      }
      CHECK(worst_difference(packed_product(*table, w, q.data(), rows), expected) <
            2e-6 * largest + 1e-6);
    }
  });
}

TEST_CASE("every instruction set gives the same bits for a packed product") {
  for_each_matrix(2, [](const PackedWeights& w, std::mt19937& random) {
    const std::size_t rows = 33;
    const std::vector<float> x = random_floats(rows * w.cols, random);
    const KernelTable& scalar = kernel_table(Isa::kScalar);
    const AlignedBytes q = quantized(scalar, x, w.cols);
    const std::vector<float> expected = packed_product(scalar, w, q.data(), rows);
    for (const KernelTable* table : tables()) {
      CAPTURE(isa_name(table->isa));
      const AlignedBytes own = quantized(*table, x, w.cols);
      for (std::size_t r = 0; r < rows; ++r)
        CHECK(std::memcmp(q.data() + r * quantized_row_bytes(w.cols),
                          own.data() + r * quantized_row_bytes(w.cols),
                          kRowHeaderBytes / 4 + w.cols / kBlockCols * sizeof(QuantizedBlock)) == 0);
      const std::vector<float> y = packed_product(*table, w, own.data(), rows);
      CHECK(same_bits(y.data(), expected.data(), y.size()));
    }
  });
}

TEST_CASE("a row of a packed product does not depend on the number of rows") {
  for_each_matrix(3, [](const PackedWeights& w, std::mt19937& random) {
    const std::vector<float> x = random_floats(64 * w.cols, random);
    for (const KernelTable* table : tables()) {
      CAPTURE(isa_name(table->isa));
      const AlignedBytes q = quantized(*table, x, w.cols);
      const std::vector<float> all = packed_product(*table, w, q.data(), 64);
      for (const std::size_t rows : {1U, 2U, 3U, 5U, 7U, 8U, 12U, 16U, 17U, 31U})
        for (std::size_t first = 0; first + rows <= 64; first += 23) {
          CAPTURE(rows, first);
          const std::vector<float> y =
              packed_product(*table, w, q.data() + first * quantized_row_bytes(w.cols), rows);
          CHECK(same_bits(y.data(), all.data() + first * w.rows, y.size()));
        }
    }
  });
}

TEST_CASE("outputs of a packed product do not depend on how their range is cut") {
  for_each_matrix(4, [](const PackedWeights& w, std::mt19937& random) {
    for (const KernelTable* table : tables())
      for (const std::size_t rows : {1U, 20U}) {
        CAPTURE(isa_name(table->isa), rows);
        const AlignedBytes q = quantized(*table, random_floats(rows * w.cols, random), w.cols);
        const std::vector<float> all = packed_product(*table, w, q.data(), rows);
        std::vector<float> y(rows * w.rows, -1.0F);
        AlignedBytes space(packed_workspace_bytes(w.cols));
        for (std::size_t begin = 0; begin < w.rows;) {
          const std::size_t end = std::min<std::size_t>(begin + 1 + random() % 40, w.rows);
          table->packed.matmul(
              {w.packed.data(), w.type.format, w.cols, q.data(), rows, y.data(), w.rows}, begin,
              end, space.data());
          begin = end;
        }
        CHECK(same_bits(y.data(), all.data(), y.size()));
      }
  });
}

TEST_CASE("a packed matrix with more groups than fit into the cache at a time") {
  std::mt19937 random(5);
  for (const PackedType& type : packed_types()) {
    const PackedWeights w = random_packed(type, 64, 9216, random);
    const std::vector<float> x = random_floats(18 * w.cols, random);
    const KernelTable& table = kernel_table(best_isa());
    const AlignedBytes q = quantized(table, x, w.cols);
    const std::vector<float> all = packed_product(table, w, q.data(), 18);
    for (std::size_t r = 0; r < 18; ++r) {
      const std::vector<float> y =
          packed_product(table, w, q.data() + r * quantized_row_bytes(w.cols), 1);
      CHECK(same_bits(y.data(), all.data() + r * w.rows, y.size()));
    }
  }
}

TEST_CASE("packing in parts gives the same as packing at once") {
  for_each_matrix(6, [](const PackedWeights& w, std::mt19937&) {
    const std::size_t groups = (w.rows + kGroupRows - 1) / kGroupRows;
    AlignedBytes parts(packed_bytes(w.type.format, w.rows, w.cols));
    for (std::size_t g = groups; g-- > 0;)
      pack_groups(w.type.format, w.file.data(), w.file.size() / w.rows, w.rows, w.cols, g, g + 1,
                  parts.data());
    CHECK(std::memcmp(parts.data(), w.packed.data(), packed_bytes(w.type.format, w.rows, w.cols)) ==
          0);
  });
}
