// Activations, sums, conversions and block copies against the CPU.
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/cpu/quantize.hpp"
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

TEST_CASE("cuda activations follow the CPU") {
  std::mt19937 random(8);
  for (const std::size_t n : {1UL, 129UL, 172UL}) {
    const std::size_t stride = n + 3;
    constexpr std::size_t kRows = 3;
    const std::vector<float> gate = random_floats(kRows * stride, random, 5.0F);
    const std::vector<float> up = random_floats(kRows * stride, random, 5.0F);
    const DeviceArray<float> device_up(up);
    const auto run = [&](Activation activation, bool gated) {
      DeviceArray<float> device_gate(gate);
      const auto width = static_cast<std::int32_t>(stride);
      check_launch(activate(activation, device_gate.data(), gated ? device_up.data() : nullptr,
                            width, kRows, static_cast<std::int32_t>(n),
                            {device_gate.data(), ElementType::kF32, width}, nullptr));
      return device_gate.read();
    };
    const auto expected = [&](const auto& apply) {
      std::vector<float> y = gate;
      for (std::size_t row = 0; row < kRows; ++row)
        apply(y.data() + row * stride, up.data() + row * stride);
      return y;
    };
    CAPTURE(n);
    CHECK(worst_difference(run(Activation::kSilu, true), expected([&](float* g, const float* u) {
                             cpu().silu_multiply(g, u, n);
                           })) < 2e-5);
    CHECK(worst_difference(run(Activation::kSilu, false),
                           expected([&](float* g, const float*) { cpu().silu(g, n); })) < 1e-5);
    CHECK(worst_difference(run(Activation::kGelu, true), expected([&](float* g, const float* u) {
                             cpu().gelu_multiply(g, u, n);
                           })) < 2e-5);
    CHECK(worst_difference(run(Activation::kGelu, false),
                           expected([&](float* g, const float*) { cpu().gelu(g, n); })) < 1e-5);
    CHECK(worst_difference(run(Activation::kClampedSwish, true),
                           expected([&](float* g, const float* u) {
                             cpu().clamped_swish_multiply(g, u, n);
                           })) < 2e-5);
  }
}

TEST_CASE("cuda activations of bad shapes") {
  DeviceArray<float> x(8);
  const Rows out{x.data(), ElementType::kF32, 8};
  check_refused(activate(Activation::kClampedSwish, x.data(), nullptr, 8, 1, 8, out, nullptr));
  check_refused(activate(Activation::kSilu, x.data(), nullptr, 7, 1, 8, out, nullptr));
  check_launch(activate(Activation::kSilu, x.data(), nullptr, 8, 0, 8, out, nullptr));
}

TEST_CASE("cuda bias and scaled sums are exact") {
  std::mt19937 random(9);
  const std::vector<float> y = random_floats(elements(3, 70), random);
  const std::vector<float> x = random_floats(elements(3, 70), random);
  const DeviceArray<float> device_x(x);
  DeviceArray<float> device_y(y);
  check_launch(add_bias(device_y.data(), 70, 3, 65, device_x.data(), nullptr));
  std::vector<float> expected = y;
  for (std::size_t row = 0; row < 3; ++row) cpu().add(expected.data() + row * 70, x.data(), 65);
  CHECK(device_y.read() == expected);

  check_launch(add_scaled(device_y.data(), device_x.data(), 0.37F, 3, 70, nullptr));
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i] = std::fma(0.37F, x[i], expected[i]);
  CHECK(device_y.read() == expected);
}

TEST_CASE("cuda scale and soft cap follow the CPU") {
  std::mt19937 random(10);
  const std::vector<float> x = random_floats(elements(2, 300), random, 40.0F);
  DeviceArray<float> device_x(x);
  std::vector<float> expected = x;
  check_launch(scale_and_cap(device_x.data(), 2, 300, 0.25F, 0.0F, nullptr));
  cpu().scale(expected.data(), 0.25F, expected.size());
  CHECK(device_x.read() == expected);
  check_launch(scale_and_cap(device_x.data(), 2, 300, 1.0F, 30.0F, nullptr));
  cpu().soft_cap(expected.data(), 30.0F, expected.size());
  CHECK(worst_difference(device_x.read(), expected) < 1e-4);
}

TEST_CASE("cuda conversion and gathering of rows") {
  std::mt19937 random(11);
  const std::vector<float> x = random_floats(elements(4, 33), random);
  const DeviceArray<float> device_x(x);
  DeviceArray<std::uint16_t> halves(elements(4, 40));
  check_launch(
      convert_rows(device_x.data(), 33, 4, 31, {halves.data(), ElementType::kBF16, 40}, nullptr));
  const auto bits = halves.read();
  for (std::size_t row = 0; row < 4; ++row)
    for (std::size_t i = 0; i < 40; ++i)
      CHECK(bits[row * 40 + i] == (i < 31 ? float_to_bfloat16(x[row * 33 + i]) : 0xCDCD));

  const DeviceArray<std::int32_t> index(std::vector<std::int32_t>{2, -1, 2});
  DeviceArray<float> gathered(elements(3, 33));
  check_launch(gather_rows(device_x.data(), index.data(), 3, 33, gathered.data(), nullptr));
  const auto rows = gathered.read();
  for (std::size_t i = 0; i < 33; ++i) {
    CHECK(rows[i] == x[66 + i]);
    CHECK(rows[33 + i] == 0.0F);
    CHECK(rows[66 + i] == x[66 + i]);
  }
}

TEST_CASE("cuda block copies move whole blocks and nothing else") {
  for (const std::size_t block_bytes : {16UL, 544UL, 30UL}) {
    CAPTURE(block_bytes);
    std::vector<unsigned char> pool(14 * block_bytes);
    std::iota(pool.begin(), pool.end(), static_cast<unsigned char>(1));
    DeviceArray<unsigned char> device(pool);
    DeviceArray<unsigned char> swap(3 * block_bytes);
    unsigned char* const second = device.data() + 7 * block_bytes;
    const DeviceArray<BlockRegion> inside(std::vector<BlockRegion>{
        {device.data(), device.data(), block_bytes}, {second, second, block_bytes}});
    const DeviceArray<BlockPair> pairs(std::vector<BlockPair>{{6, 1}, {-1, 3}, {0, 4}});
    check_launch(copy_blocks(inside.data(), 2, pairs.data(), 3, nullptr));
    const auto copy = [&](std::size_t tensor, std::size_t from, std::size_t to) {
      std::memcpy(pool.data() + (tensor * 7 + to) * block_bytes,
                  pool.data() + (tensor * 7 + from) * block_bytes, block_bytes);
    };
    for (const std::size_t tensor : {0UL, 1UL}) {
      copy(tensor, 6, 1);
      copy(tensor, 0, 4);
    }
    CHECK(device.read() == pool);

    const DeviceArray<BlockRegion> out(
        std::vector<BlockRegion>{{second, swap.data(), block_bytes}});
    const DeviceArray<BlockPair> to_slot(std::vector<BlockPair>{{5, 2}});
    check_launch(copy_blocks(out.data(), 1, to_slot.data(), 1, nullptr));
    const auto slots = swap.read();
    CHECK(std::memcmp(slots.data() + 2 * block_bytes, pool.data() + (7 + 5) * block_bytes,
                      block_bytes) == 0);
    CHECK(slots[0] == 0xCD);
    check_launch(copy_blocks(nullptr, 0, nullptr, 0, nullptr));
    check_refused(copy_blocks(nullptr, 1, to_slot.data(), 1, nullptr));
  }
}

}  // namespace
}  // namespace sluice::kernels::cuda
