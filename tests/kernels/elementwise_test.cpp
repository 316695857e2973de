#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

TEST_CASE("RMS norm agrees with double precision for every length") {
  std::mt19937 random(1);
  for (const KernelTable* table : tables())
    for (const std::size_t n : {1U, 7U, 8U, 16U, 17U, 64U, 172U, 897U}) {
      CAPTURE(isa_name(table->isa), n);
      const std::vector<float> x = random_floats(n, random, 3.0F);
      const std::vector<float> weight = random_floats(n, random);
      double squares = 0;
      for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
      const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + 0.01);
      std::vector<double> expected(n);
      for (std::size_t i = 0; i < n; ++i)
        expected[i] = static_cast<double>(x[i]) * factor * static_cast<double>(weight[i]);
      std::vector<float> y(n);
      table->rms_norm(x.data(), weight.data(), 0.01F, n, y.data());
      CHECK(worst_difference(y, expected) < 1e-5);
      std::vector<float> in_place = x;
      table->rms_norm(in_place.data(), weight.data(), 0.01F, n, in_place.data());
      CHECK(same_bits(in_place.data(), y.data(), n));
    }
}

TEST_CASE("the gate agrees with double precision and survives extremes") {
  std::vector<float> inputs;
  for (float x = -120.0F; x <= 120.0F; x += 0.37F) inputs.push_back(x);
  inputs.insert(inputs.end(), {0.0F, -0.0F, 1e-30F, 1e30F, -1e30F, 3e38F});
  for (const KernelTable* table : tables()) {
    std::vector<float> gate = inputs;
    const std::vector<float> up(inputs.size(), 2.0F);
    table->silu_multiply(gate.data(), up.data(), gate.size() - 1);  // without the last
    for (std::size_t i = 0; i + 1 < inputs.size(); ++i) {
      CAPTURE(isa_name(table->isa), inputs[i]);
      const double x = static_cast<double>(inputs[i]);
      const double expected = 2.0 * x / (1.0 + std::exp(-x));
      // Below -87 the exact value is smaller than 1e-35 times x.
      CHECK(std::abs(static_cast<double>(gate[i]) - expected) <=
            1e-6 * std::abs(expected) + 1e-35 * std::abs(x));
    }
    CHECK(gate.back() == inputs.back());
  }
}

TEST_CASE("not a number stays not a number in gate and norm") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelTable* table : tables()) {
    std::vector<float> gate(19, 1.0F);
    gate[3] = gate[18] = nan;
    const std::vector<float> up(19, 1.0F);
    table->silu_multiply(gate.data(), up.data(), gate.size());
    CHECK(std::isnan(gate[3]));
    CHECK(std::isnan(gate[18]));
    CHECK_FALSE(std::isnan(gate[4]));
    std::vector<float> y(19);
    table->rms_norm(gate.data(), up.data(), 1e-5F, 19, y.data());
    CHECK(std::isnan(y[0]));
  }
}

TEST_CASE("a value does not depend on its place in a row") {
  std::mt19937 random(5);
  for (const KernelTable* table : tables()) {
    const std::vector<float> g = random_floats(40, random, 4.0F);
    const std::vector<float> u = random_floats(40, random);
    std::vector<float> all = g;
    table->silu_multiply(all.data(), u.data(), all.size());
    for (std::size_t i = 0; i < g.size(); ++i) {
      float alone = g[i];
      table->silu_multiply(&alone, &u[i], 1);
      CHECK(same_bits(&alone, &all[i], 1));
    }
  }
}

TEST_CASE("adding rows adds rows") {
  std::mt19937 random(6);
  for (const KernelTable* table : tables()) {
    std::vector<float> y = random_floats(37, random);
    const std::vector<float> x = random_floats(37, random);
    std::vector<float> expected(37);
    for (std::size_t i = 0; i < 37; ++i) expected[i] = y[i] + x[i];
    table->add(y.data(), x.data(), 37);
    CHECK(y == expected);
  }
}
