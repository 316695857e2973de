// Rows of tables and whole matrices as plain numbers: bit for bit what the CPU decodes.
#include <catch2/catch.hpp>
#include <random>

#include "kernels/cpu/quantize.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/random_weights.hpp"
#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::cuda {
namespace {

/// Widths that a type can have, odd ones for plain types.
std::vector<std::int32_t> widths(WeightType type) {
  if (weight_block(type) == 256) return {256, 768};
  if (weight_block(type) == 32) return {32, 96, 1056};
  return {1, 7, 64, 172, 1029};
}

TEST_CASE("cuda embedding rows are the CPU's rows scaled") {
  std::mt19937 random(1);
  for (const WeightTypeOfTest& type : weight_types()) {
    for (const std::int32_t cols : widths(type.type)) {
      CAPTURE(type.name, cols);
      const RandomWeights table = random_weights(type, 11, cols, random);
      const std::vector<std::int32_t> ids{3, 10, 0, -1, 11, 3};
      const DeviceArray<std::int32_t> device_ids(ids);
      const auto n = static_cast<std::size_t>(cols);
      DeviceArray<float> out(ids.size() * n);
      const auto run = [&](float scale, bool add) {
        check_launch(embed_rows(table.view, device_ids.data(), 6, scale, add, out.data(), nullptr));
      };
      run(3.5F, false);
      const std::vector<float> first = out.read();
      for (std::size_t row = 0; row < ids.size(); ++row)
        for (std::size_t i = 0; i < n; ++i) {
          const bool inside = ids[row] >= 0 && ids[row] < 11;
          const float expected =
              inside ? 3.5F * table.decoded[static_cast<std::size_t>(ids[row]) * n + i] : 0.0F;
          REQUIRE(first[row * n + i] == expected);
        }
      run(1.0F, true);
      const std::vector<float> second = out.read();
      for (std::size_t i = 0; i < n; ++i) {
        REQUIRE(second[i] == first[i] + table.decoded[3 * n + i]);
        REQUIRE(second[3 * n + i] == 0.0F);
      }
    }
  }
}

TEST_CASE("cuda embedding of no rows and bad shapes") {
  std::mt19937 random(2);
  const RandomWeights table = random_weights(weight_types()[3], 4, 32, random);
  DeviceArray<float> out(32);
  const DeviceArray<std::int32_t> ids(std::vector<std::int32_t>{1});
  check_launch(embed_rows(table.view, ids.data(), 0, 1.0F, false, out.data(), nullptr));
  check_refused(embed_rows(table.view, nullptr, 1, 1.0F, false, out.data(), nullptr));
  check_refused(embed_rows(table.view, ids.data(), -1, 1.0F, false, out.data(), nullptr));
  Weights odd = table.view;
  odd.cols = 33;
  check_refused(embed_rows(odd, ids.data(), 1, 1.0F, false, out.data(), nullptr));
}

TEST_CASE("cuda dequantisation gives the CPU's numbers in every plain type") {
  std::mt19937 random(3);
  for (const WeightTypeOfTest& type : weight_types()) {
    for (const std::int32_t cols : widths(type.type)) {
      CAPTURE(type.name, cols);
      const RandomWeights w = random_weights(type, 5, cols, random);
      const std::int32_t stride = cols + 4;
      const auto n = static_cast<std::size_t>(cols);
      const std::size_t step = n + 4;
      DeviceArray<float> f32(4 * step + n);
      DeviceArray<std::uint16_t> f16(4 * step + n);
      DeviceArray<std::uint16_t> bf16(4 * step + n);
      check_launch(dequantize(w.view, {f32.data(), ElementType::kF32, stride}, nullptr));
      check_launch(dequantize(w.view, {f16.data(), ElementType::kF16, stride}, nullptr));
      check_launch(dequantize(w.view, {bf16.data(), ElementType::kBF16, stride}, nullptr));
      const auto singles = f32.read();
      const auto halves = f16.read();
      const auto brains = bf16.read();
      for (std::size_t row = 0; row < 5; ++row) {
        for (std::size_t i = 0; i < n; ++i) {
          const float x = w.decoded[row * n + i];
          REQUIRE(test::same_bits(&singles[row * step + i], &x, 1));
          REQUIRE(halves[row * step + i] == float_to_half(x));
          REQUIRE(brains[row * step + i] == float_to_bfloat16(x));
        }
        for (std::size_t i = n; row < 4 && i < step; ++i)
          REQUIRE(halves[row * step + i] == 0xCDCD);  // between rows nothing is written
      }
    }
  }
}

}  // namespace
}  // namespace sluice::kernels::cuda
