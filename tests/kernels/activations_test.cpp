// Norms with a mean, gates, scales and caps against double precision.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/kernels/kernel_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

double clamped_swish(double gate, double up) {
  gate = std::min(gate, 7.0);
  up = std::clamp(up, -7.0, 7.0);
  return gate * sigmoid(1.702 * gate) * (up + 1.0);
}

struct Gate {
  const char* name;
  void (*KernelTable::*kernel)(float*, const float*, std::size_t);
  double (*expected)(double gate, double up);
};

const Gate kGates[] = {
    {"silu", &KernelTable::silu_multiply, [](double g, double u) { return g * sigmoid(g) * u; }},
    {"gelu", &KernelTable::gelu_multiply, [](double g, double u) { return gelu(g) * u; }},
    {"clamped swish", &KernelTable::clamped_swish_multiply, clamped_swish}};

struct Alone {
  const char* name;
  void (*KernelTable::*kernel)(float*, std::size_t);
  double (*expected)(double);
};

const Alone kAlone[] = {{"silu", &KernelTable::silu, [](double x) { return x * sigmoid(x); }},
                        {"gelu", &KernelTable::gelu, gelu}};

std::vector<float> numbers() {
  std::vector<float> values;
  for (float x = -30.0F; x <= 30.0F; x += 0.093F) values.push_back(x);
  values.insert(values.end(), {0.0F, -0.0F, 1e-30F, 7.0F, -7.0F, 1e4F, -1e4F});
  return values;
}

}  // namespace

TEST_CASE("layer norm agrees with double precision for every length") {
  std::mt19937 random(1);
  for (const KernelTable* table : tables())
    for (const std::size_t n : {1U, 7U, 8U, 16U, 17U, 64U, 172U, 897U})
      for (const bool with_bias : {false, true}) {
        CAPTURE(isa_name(table->isa), n, with_bias);
        std::vector<float> x = random_floats(n, random, 3.0F);
        for (float& v : x) v += 5.0F;
        const std::vector<float> weight = random_floats(n, random);
        const std::vector<float> bias = random_floats(n, random);
        double mean = 0;
        for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(n);
        double variance = 0;
        for (const float v : x)
          variance += std::pow(static_cast<double>(v) - mean, 2) / static_cast<double>(n);
        std::vector<double> expected(n);
        for (std::size_t i = 0; i < n; ++i)
          expected[i] = (static_cast<double>(x[i]) - mean) / std::sqrt(variance + 0.01) *
                            static_cast<double>(weight[i]) +
                        (with_bias ? static_cast<double>(bias[i]) : 0.0);
        const float* b = with_bias ? bias.data() : nullptr;
        std::vector<float> y(n);
        table->layer_norm(x.data(), weight.data(), b, 0.01F, n, y.data());
        CHECK(worst_difference(y, expected) < 2e-5);
        table->layer_norm(x.data(), weight.data(), b, 0.01F, n, x.data());
        CHECK(same_bits(x.data(), y.data(), n));  // in place
      }
}

TEST_CASE("gates and activations agree with double precision wherever they stand in a row") {
  const std::vector<float> inputs = numbers();
  std::mt19937 random(2);
  const std::vector<float> up = random_floats(inputs.size(), random, 6.0F);
  const auto near = [](float got, double expected) {
    // An exponent of 60 that is rounded to a float moves the result by 4e-6 of itself.
    return std::abs(static_cast<double>(got) - expected) <= 5e-6 * std::abs(expected) + 1e-13;
  };
  for (const KernelTable* table : tables()) {
    for (const Gate& gate : kGates) {
      CAPTURE(isa_name(table->isa), gate.name);
      std::vector<float> all = inputs;
      (table->*gate.kernel)(all.data(), up.data(), all.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(inputs[i], up[i]);
        // Below -87 a sigmoid is smaller than a float can say.
        if (inputs[i] > -40.0F)
          CHECK(near(all[i],
                     gate.expected(static_cast<double>(inputs[i]), static_cast<double>(up[i]))));
        float alone = inputs[i];
        (table->*gate.kernel)(&alone, &up[i], 1);
        CHECK(same_bits(&alone, &all[i], 1));
      }
    }
    for (const Alone& activation : kAlone) {
      CAPTURE(isa_name(table->isa), activation.name);
      std::vector<float> all = inputs;
      (table->*activation.kernel)(all.data(), all.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        CAPTURE(inputs[i]);
        // The tanh form of GELU loses its digits where 1 + tanh is nearly 0.
        const double expected = activation.expected(static_cast<double>(inputs[i]));
        if (inputs[i] > -4.0F) CHECK(near(all[i], expected));
        if (inputs[i] < -20.0F) CHECK(std::abs(all[i]) < 1e-6F);
      }
    }
  }
}

TEST_CASE("scales and caps and scaled sums agree with double precision") {
  std::mt19937 random(3);
  for (const KernelTable* table : tables()) {
    CAPTURE(isa_name(table->isa));
    const std::vector<float> x = random_floats(77, random, 20.0F);
    const std::vector<float> z = random_floats(77, random);
    std::vector<float> scaled = x;
    std::vector<float> summed = x;
    std::vector<float> capped = x;
    table->scale(scaled.data(), 0.3F, 77);
    table->add_scaled(summed.data(), z.data(), 0.7F, 77);
    table->soft_cap(capped.data(), 8.0F, 77);
    for (std::size_t i = 0; i < 77; ++i) {
      const auto v = static_cast<double>(x[i]);
      CHECK(static_cast<double>(scaled[i]) == Approx(v * static_cast<double>(0.3F)));
      CHECK(static_cast<double>(summed[i]) ==
            Approx(v + static_cast<double>(0.7F) * static_cast<double>(z[i])));
      CHECK(static_cast<double>(capped[i]) == Approx(8.0 * std::tanh(v / 8.0)).margin(2e-6));
    }
  }
}

TEST_CASE("not a number goes through every gate and cap") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const KernelTable* table : tables()) {
    CAPTURE(isa_name(table->isa));
    for (const Gate& gate : kGates)
      for (const bool in_gate : {true, false}) {
        std::vector<float> g(19, 1.0F);
        std::vector<float> u(19, 1.0F);
        (in_gate ? g : u)[3] = (in_gate ? g : u)[18] = nan;
        (table->*gate.kernel)(g.data(), u.data(), 19);
        CHECK(std::isnan(g[3]));
        CHECK(std::isnan(g[18]));
        CHECK_FALSE(std::isnan(g[4]));
      }
    std::vector<float> y(19, 1.0F);
    y[3] = nan;
    table->soft_cap(y.data(), 5.0F, 19);
    CHECK(std::isnan(y[3]));
    table->gelu(y.data(), 19);
    CHECK(std::isnan(y[3]));
    std::vector<float> normed(19);
    table->layer_norm(y.data(), y.data(), nullptr, 1e-5F, 19, normed.data());
    CHECK(std::isnan(normed[0]));
  }
}
