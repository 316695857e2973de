// Rounding of inputs, and products with every weight type.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/random_weights.hpp"
#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::cuda {
namespace {

using test::random_floats;

/// Inputs of a product, on the device, rounded where the weights ask for it.
struct Inputs {
  std::int32_t rows;
  std::int32_t cols;
  DeviceArray<float> x;
  DeviceArray<std::int8_t> codes;
  DeviceArray<float> scales;

  Inputs(const std::vector<float>& values, std::int32_t num_rows, std::int32_t num_cols)
      : rows(num_rows),
        cols(num_cols),
        x(values),
        codes(cols % 32 == 0 ? values.size() : 0),
        scales(cols % 32 == 0 ? values.size() / 32 : 0) {
    if (cols % 32 == 0)
      check_launch(
          quantize_rows(x.data(), cols, rows, cols, {codes.data(), scales.data()}, nullptr));
  }

  /// What the product sees of row r, column c.
  double seen(bool plain, std::size_t at) const {
    if (plain) return static_cast<double>(x.data()[at]);
    return static_cast<double>(codes.data()[at]) * static_cast<double>(scales.data()[at / 32]);
  }
};

std::vector<float> product(const RandomWeights& w, Inputs& inputs, const float* bias,
                           std::int32_t first_row, std::int32_t rows, float before = 0.0F,
                           bool add = false) {
  const std::size_t outputs = static_cast<std::size_t>(w.view.rows);
  const std::size_t stride = outputs + 1;
  DeviceArray<float> y(static_cast<std::size_t>(rows) * stride);
  for (std::size_t i = 0; add && i < y.size(); ++i) y.data()[i] = before;
  const auto offset = static_cast<std::ptrdiff_t>(first_row) * inputs.cols;
  Matvec operands;
  operands.weights = w.view;
  operands.x = inputs.x.data() + offset;
  operands.x_stride = inputs.cols;
  if (inputs.codes.size() > 0)
    operands.rounded = {inputs.codes.data() + offset, inputs.scales.data() + offset / 32};
  operands.bias = bias;
  operands.y = y.data();
  operands.y_stride = static_cast<std::int32_t>(stride);
  operands.add = add;
  check_launch(matvec(operands, rows, nullptr));
  std::vector<float> result;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
    result.insert(result.end(), y.data() + row * stride, y.data() + row * stride + outputs);
  return result;
}

TEST_CASE("cuda rounding of inputs is to the nearest of 255 steps") {
  std::mt19937 random(12);
  std::vector<float> x = random_floats(elements(3, 96), random, 2.0F);
  for (std::size_t i = 32; i < 64; ++i) x[i] = 0.0F;
  x[96 + 5] = std::numeric_limits<float>::infinity();
  Inputs inputs(x, 3, 96);
  for (std::size_t group = 0; group < 9; ++group) {
    float largest = 0.0F;
    for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(x[group * 32 + i]));
    const float scale = inputs.scales.data()[group];
    if (group == 3) {
      CHECK(std::isnan(scale));
      continue;
    }
    REQUIRE(scale == largest / 127.0F);
    for (std::size_t i = 0; i < 32; ++i) {
      const float code = scale == 0.0F ? 0.0F : std::nearbyint(x[group * 32 + i] / scale);
      REQUIRE(static_cast<float>(inputs.codes.data()[group * 32 + i]) == code);
    }
  }
}

TEST_CASE("cuda products are those of the decoded weights") {
  std::mt19937 random(13);
  for (const WeightTypeOfTest& type : weight_types()) {
    const std::int32_t block = weight_block(type.type);
    const bool plain = block == 1;
    const auto widths = plain ? std::vector<std::int32_t>{1, 64, 172, 301, 1032}
                              : std::vector<std::int32_t>{block, 3 * block, 1024 + block};
    for (const std::int32_t cols : widths)
      for (const std::int32_t outputs : {1, 13, 32}) {
        CAPTURE(type.name, cols, outputs);
        constexpr std::int32_t kRows = 3;
        const RandomWeights w = random_weights(type, outputs, cols, random);
        Inputs inputs(random_floats(elements(kRows, cols), random), kRows, cols);
        const std::vector<float> bias = random_floats(static_cast<std::size_t>(outputs), random);
        const DeviceArray<float> device_bias(bias);
        const std::vector<float> y = product(w, inputs, device_bias.data(), 0, kRows);
        const std::vector<float> added = product(w, inputs, nullptr, 0, kRows, 2.0F, true);
        for (std::size_t row = 0; row < kRows; ++row)
          for (std::size_t n = 0; n < static_cast<std::size_t>(outputs); ++n) {
            double expected = 0.0;
            double magnitude = 0.0;
            for (std::size_t c = 0; c < static_cast<std::size_t>(cols); ++c) {
              const double term =
                  static_cast<double>(w.decoded[n * static_cast<std::size_t>(cols) + c]) *
                  inputs.seen(plain, row * static_cast<std::size_t>(cols) + c);
              expected += term;
              magnitude += std::abs(term);
            }
            const double got = static_cast<double>(y[row * static_cast<std::size_t>(outputs) + n]);
            const double sum =
                static_cast<double>(added[row * static_cast<std::size_t>(outputs) + n]);
            // The minimum of Q4_K is a sum of its own, as large as what it is taken from.
            const double slack =
                4e-6 * (magnitude + 1.0) + (type.type == WeightType::kQ4_K ? 1e-4 : 0);
            REQUIRE(std::abs(got - expected - static_cast<double>(bias[n])) < slack);
            REQUIRE(std::abs(sum - expected - 2.0) < slack);
          }
      }
  }
}

TEST_CASE("cuda product of a row has the same bits in any company") {
  std::mt19937 random(14);
  for (const WeightTypeOfTest& type : weight_types()) {
    CAPTURE(type.name);
    const std::int32_t cols = weight_block(type.type) == 1 ? 333 : 512;
    constexpr std::int32_t kRows = 19;
    const RandomWeights w = random_weights(type, 9, cols, random);
    Inputs inputs(random_floats(elements(kRows, cols), random), kRows, cols);
    const std::vector<float> all = product(w, inputs, nullptr, 0, kRows);
    const std::pair<std::int32_t, std::int32_t> parts[] = {{0, 1}, {3, 2}, {5, 3},
                                                           {8, 4}, {2, 8}, {6, 13}};
    for (const auto& [first, count] : parts) {
      const std::vector<float> part = product(w, inputs, nullptr, first, count);
      REQUIRE(test::same_bits(part.data(), all.data() + elements(first, 9), part.size()));
    }
    std::vector<float> result;
    same_in_every_order([&] { result = product(w, inputs, nullptr, 0, 5); },
                        [&] { return result; });
  }
}

TEST_CASE("cuda products of wide and narrow reads have the same bits") {
  std::mt19937 random(15);
  for (std::size_t t = 0; t < 3; ++t) {
    const RandomWeights w = random_weights(weight_types()[t], 6, 264, random);
    const std::vector<float> x = random_floats(264, random);
    const DeviceArray<float> device_x(x);
    DeviceArray<float> y(12);
    for (const std::int32_t stride : {264, 265}) {  // the second is no multiple of 16 bytes
      Matvec operands;
      operands.weights = w.view;
      operands.x = device_x.data();
      operands.x_stride = stride;
      operands.y = y.data() + elements(stride - 264, 6);
      operands.y_stride = 6;
      check_launch(matvec(operands, 1, nullptr));
    }
    CHECK(test::same_bits(y.data(), y.data() + 6, 6));
  }
}

TEST_CASE("cuda arranged weights give the same bits everywhere") {
  std::mt19937 random(17);
  for (const WeightTypeOfTest& type : weight_types()) {
    const std::int32_t cols = weight_block(type.type) == 256 ? 768 : 96;
    CAPTURE(type.name);
    if (!can_arrange(type.type, 16, cols)) continue;
    constexpr std::int32_t kRows = 6;
    RandomWeights w = random_weights(type, 16, cols, random);
    Inputs inputs(random_floats(elements(kRows, cols), random), kRows, cols);
    const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{13});
    const auto everything = [&] {
      std::vector<float> all = product(w, inputs, nullptr, 0, kRows);
      const std::vector<float> one = product(w, inputs, nullptr, 2, 1);
      DeviceArray<float> decoded(w.decoded.size());
      check_launch(dequantize(w.view, {decoded.data(), ElementType::kF32, cols}, nullptr));
      DeviceArray<float> embedded(static_cast<std::size_t>(cols));
      check_launch(embed_rows(w.view, ids.data(), 1, 1.0F, false, embedded.data(), nullptr));
      for (const auto& more : {one, decoded.read(), embedded.read()})
        all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    const std::vector<float> before = everything();
    const std::vector<std::byte> file = w.file.read();
    arrange(w);
    REQUIRE(w.view.arranged);
    CHECK(w.file.read() != file);
    CHECK(everything() == before);
  }
}

TEST_CASE("cuda weights that have no other order are refused") {
  DeviceArray<std::byte> data(elements(144, 8));
  check_refused(arrange_weights(data.data(), WeightType::kQ4_K, 8, 256, nullptr));
  check_refused(arrange_weights(data.data(), WeightType::kQ8_0, 3, 32, nullptr));
  check_refused(arrange_weights(nullptr, WeightType::kQ8_0, 8, 32, nullptr));
}

TEST_CASE("cuda products of no rows and bad shapes") {
  std::mt19937 random(16);
  const RandomWeights w = random_weights(weight_types()[3], 4, 64, random);
  Inputs inputs(random_floats(64, random), 1, 64);
  DeviceArray<float> y(4);
  Matvec operands;
  operands.weights = w.view;
  operands.rounded = {inputs.codes.data(), inputs.scales.data()};
  operands.y = y.data();
  operands.y_stride = 4;
  check_launch(matvec(operands, 0, nullptr));
  operands.y_stride = 3;
  check_refused(matvec(operands, 1, nullptr));
  operands.y_stride = 4;
  operands.rounded.scales = nullptr;
  check_refused(matvec(operands, 1, nullptr));
  check_refused(
      quantize_rows(inputs.x.data(), 64, 1, 48, {inputs.codes.data(), y.data()}, nullptr));
}

}  // namespace
}  // namespace sluice::kernels::cuda
