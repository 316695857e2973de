// Norms against the CPU's scalar kernels; sums run in another order, so to some digits.
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "kernels/cpu/dequantize.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::cuda {
namespace {

using test::random_floats;
using test::worst_difference;

const KernelTable& cpu() {
  return kernel_table(Isa::kScalar);
}

/// weight and bias of a norm, on both sides.
struct NormOfTest {
  std::vector<float> weight, bias;
  DeviceArray<float> device_weight, device_bias;
  NormKind kind;
  bool has_bias;

  NormOfTest(NormKind norm_kind, bool with_bias, std::size_t n, std::mt19937& random)
      : weight(random_floats(n, random)),
        bias(random_floats(n, random)),
        device_weight(weight),
        device_bias(bias),
        kind(norm_kind),
        has_bias(with_bias) {}

  NormWeights view() const {
    return {device_weight.data(), has_bias ? device_bias.data() : nullptr, kind, 1e-5F};
  }
  void apply(const float* x, std::size_t n, float* y) const {
    if (kind == NormKind::kRms)
      cpu().rms_norm(x, weight.data(), 1e-5F, n, y);
    else
      cpu().layer_norm(x, weight.data(), has_bias ? bias.data() : nullptr, 1e-5F, n, y);
  }
};

TEST_CASE("cuda add norm follows the CPU through sum and both norms") {
  std::mt19937 random(4);
  for (const std::size_t n : {1UL, 31UL, 64UL, 288UL, 1000UL, 4096UL})
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer})
      for (const bool post : {false, true}) {
        CAPTURE(n, static_cast<int>(kind), post);
        if (kind == NormKind::kLayer && n == 1) continue;  // the deviation of one number is 0
        constexpr std::size_t kRows = 3;
        const NormOfTest norm(kind, kind == NormKind::kLayer, n, random);
        const NormOfTest post_norm(kind, false, n, random);
        std::vector<float> hidden = random_floats(kRows * n, random);
        const std::vector<float> block = random_floats(kRows * n, random);
        const auto run = [&] {
          DeviceArray<float> device_hidden(hidden);
          const DeviceArray<float> device_block(block);
          DeviceArray<float> out(kRows * n);
          AddNorm operands;
          operands.hidden = device_hidden.data();
          operands.block = device_block.data();
          operands.residual_scale = 0.7F;
          if (post) operands.post_norm = post_norm.view();
          operands.norm = norm.view();
          operands.out = {out.data(), ElementType::kF32, static_cast<std::int32_t>(n)};
          operands.n = static_cast<std::int32_t>(n);
          check_launch(add_norm(operands, kRows, nullptr));
          std::vector<float> both = device_hidden.read();
          const std::vector<float> normed = out.read();
          both.insert(both.end(), normed.begin(), normed.end());
          return both;
        };
        std::vector<float> result;
        result = same_in_every_order([&] { result = run(); }, [&] { return result; });

        std::vector<float> expected = hidden;
        for (std::size_t row = 0; row < kRows; ++row) {
          std::vector<float> x(block.begin() + static_cast<std::ptrdiff_t>(row * n),
                               block.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
          if (post) post_norm.apply(block.data() + row * n, n, x.data());
          cpu().add_scaled(expected.data() + row * n, x.data(), 0.7F, n);
        }
        expected.resize(2 * kRows * n);
        for (std::size_t row = 0; row < kRows; ++row)
          norm.apply(expected.data() + row * n, n, expected.data() + (kRows + row) * n);
        CHECK(worst_difference(result, expected) < 5e-5);
      }
}

TEST_CASE("cuda norm reads rows by index and writes halves") {
  std::mt19937 random(5);
  constexpr std::size_t kSize = 96;
  const NormOfTest norm(NormKind::kRms, false, kSize, random);
  std::vector<float> hidden = random_floats(5 * kSize, random);
  DeviceArray<float> device_hidden(hidden);
  const DeviceArray<std::int32_t> index(std::vector<std::int32_t>{4, -1, 0});
  DeviceArray<std::uint16_t> out(3 * kSize);
  AddNorm operands;
  operands.hidden = device_hidden.data();
  operands.norm = norm.view();
  operands.out = {out.data(), ElementType::kF16, kSize};
  operands.row_index = index.data();
  operands.n = kSize;
  check_launch(add_norm(operands, 3, nullptr));
  const auto halves = out.read();
  std::vector<float> expected(kSize);
  norm.apply(hidden.data() + 4 * kSize, kSize, expected.data());
  for (std::size_t i = 0; i < kSize; ++i) {
    const float x = half_to_float(halves[i]);
    CHECK(std::abs(x - expected[i]) <= 1e-3F * std::abs(expected[i]) + 1e-6F);
    CHECK(halves[kSize + i] == 0);
  }
  CHECK(device_hidden.read() == hidden);
}

TEST_CASE("cuda norm of a row does not depend on the other rows") {
  std::mt19937 random(6);
  constexpr std::size_t kSize = 200;
  const NormOfTest norm(NormKind::kRms, false, kSize, random);
  const std::vector<float> rows = random_floats(9 * kSize, random);
  const auto normed = [&](std::size_t first, std::size_t count) {
    DeviceArray<float> hidden(
        std::vector<float>(rows.begin() + static_cast<std::ptrdiff_t>(first * kSize),
                           rows.begin() + static_cast<std::ptrdiff_t>((first + count) * kSize)));
    DeviceArray<float> out(count * kSize);
    AddNorm operands;
    operands.hidden = hidden.data();
    operands.norm = norm.view();
    operands.out = {out.data(), ElementType::kF32, kSize};
    operands.n = kSize;
    check_launch(add_norm(operands, static_cast<std::int32_t>(count), nullptr));
    return out.read();
  };
  const std::vector<float> all = normed(0, 9);
  const std::vector<float> one = normed(7, 1);
  CHECK(test::same_bits(one.data(), all.data() + 7 * kSize, kSize));
}

TEST_CASE("cuda norm of vectors inside rows") {
  std::mt19937 random(7);
  for (const std::size_t n : {8UL, 64UL, 128UL}) {
    CAPTURE(n);
    constexpr std::size_t kVectors = 3;
    const std::size_t stride = kVectors * n + 5;
    const std::vector<float> weight = random_floats(n, random);
    const DeviceArray<float> device_weight(weight);
    std::vector<float> x = random_floats(2 * stride, random);
    DeviceArray<float> device_x(x);
    check_launch(norm_vectors(device_x.data(), static_cast<std::int32_t>(stride), 2, kVectors,
                              static_cast<std::int32_t>(n), device_weight.data(), 1e-6F, nullptr));
    for (std::size_t row = 0; row < 2; ++row)
      for (std::size_t v = 0; v < kVectors; ++v) {
        float* const at = x.data() + row * stride + v * n;
        cpu().rms_norm(at, weight.data(), 1e-6F, n, at);
      }
    CHECK(worst_difference(device_x.read(), x) < 1e-5);
  }
}

TEST_CASE("cuda norms of no rows and bad shapes") {
  DeviceArray<float> x(64);
  AddNorm operands;
  operands.hidden = x.data();
  operands.n = 64;
  check_refused(add_norm(operands, 1, nullptr));  // nothing to do with it
  operands.out = {x.data(), ElementType::kF32, 63};
  check_refused(add_norm(operands, 1, nullptr));
  operands.out.stride = 64;
  check_launch(add_norm(operands, 0, nullptr));
  operands.n = 0;
  check_refused(add_norm(operands, 1, nullptr));
  check_refused(norm_vectors(x.data(), 64, 1, 3, 32, x.data(), 1e-5F, nullptr));
  check_launch(norm_vectors(x.data(), 64, 0, 2, 32, x.data(), 1e-5F, nullptr));
}

}  // namespace
}  // namespace sluice::kernels::cuda
