#include "kernels/cpu/quantize.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/dequantize.hpp"

using namespace sluice::kernels;

namespace {

struct Type {
  const char* name;
  std::size_t block;
  std::size_t block_bytes;
  void (*quantize)(const float*, std::byte*, std::size_t);
  void (*dequantize)(const std::byte*, float*, std::size_t);
  double most_noise;  ///< allowed error of normally distributed values, root mean square
};

// The bounds are a little above what the types reach on such values, and half of what a mistake
// in one bit plane, scale or sign gives.
const Type kTypes[] = {
    {"q8_0", 32, 34, quantize_q8_0, dequantize_q8_0, 0.006},
    {"q4_0", 32, 18, quantize_q4_0, dequantize_q4_0, 0.090},
    {"q4_1", 32, 20, quantize_q4_1, dequantize_q4_1, 0.080},
    {"q5_0", 32, 22, quantize_q5_0, dequantize_q5_0, 0.045},
    {"q5_1", 32, 24, quantize_q5_1, dequantize_q5_1, 0.040},
    {"iq4_nl", 32, 18, quantize_iq4_nl, dequantize_iq4_nl, 0.085},
    {"q2_k", 256, 84, quantize_q2_k, dequantize_q2_k, 0.30},
    {"q3_k", 256, 110, quantize_q3_k, dequantize_q3_k, 0.16},
    {"q4_k", 256, 144, quantize_q4_k, dequantize_q4_k, 0.080},
    {"q5_k", 256, 176, quantize_q5_k, dequantize_q5_k, 0.040},
    {"q6_k", 256, 210, quantize_q6_k, dequantize_q6_k, 0.020},
};

std::vector<float> round_trip(const Type& type, const std::vector<float>& x) {
  // One byte further than aligned: blocks may lie anywhere.
  std::vector<std::byte> bytes(x.size() / type.block * type.block_bytes + 1, std::byte{0xAA});
  type.quantize(x.data(), bytes.data() + 1, x.size());
  std::vector<float> back(x.size());
  type.dequantize(bytes.data() + 1, back.data(), x.size());
  return back;
}

double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

std::vector<float> normal_values(std::size_t n, float scale, std::uint32_t seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> x(n);
  for (float& value : x) value = normal(random);
  return x;
}

}  // namespace

TEST_CASE("every half and bfloat16 comes back from its float") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (const float value = half_to_float(half); !std::isnan(value)) {
      REQUIRE(float_to_half(value) == half);
    } else {
      REQUIRE(std::isnan(half_to_float(float_to_half(value))));
    }
    if (const float value = bfloat16_to_float(half); !std::isnan(value)) {
      REQUIRE(float_to_bfloat16(value) == half);
    } else {
      REQUIRE(std::isnan(bfloat16_to_float(float_to_bfloat16(value))));
    }
  }
}

TEST_CASE("floats go to the nearest half with ties to even") {
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i) {
    const auto a = static_cast<std::uint32_t>(random() % 0x7BFF);
    const double low = static_cast<double>(half_to_float(static_cast<std::uint16_t>(a)));
    const double high = static_cast<double>(half_to_float(static_cast<std::uint16_t>(a + 1)));
    const double t = (static_cast<double>(random() % 33)) / 32.0;
    const float value = static_cast<float>(low + (high - low) * t);
    const double exact = static_cast<double>(value);
    const std::uint32_t expected =
        exact - low < high - exact ? a : (exact - low > high - exact ? a + 1 : a + (a & 1U));
    REQUIRE(float_to_half(value) == expected);
    REQUIRE(float_to_half(-value) == (expected | 0x8000U));
  }
  CHECK(float_to_half(65520.0F) == 0x7C00);
  CHECK(float_to_half(65519.0F) == 0x7BFF);
  CHECK(float_to_half(1e-9F) == 0);
}

TEST_CASE("quantised values stay close to what they stand for") {
  for (const Type& type : kTypes) {
    for (const float scale : {1.0F, 1e-3F, 300.0F}) {
      CAPTURE(type.name, scale);
      const std::vector<float> x = normal_values(256 * 64, scale);
      const double noise = rms_difference(x, round_trip(type, x)) / static_cast<double>(scale);
      CHECK(noise < type.most_noise);
      CHECK(noise > type.most_noise / 2.5);  // else the bound above has no meaning
    }
  }
}

TEST_CASE("blocks do not depend on their neighbours") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    const std::vector<float> x = normal_values(4 * 256, 1.0F);
    const std::vector<float> whole = round_trip(type, x);
    for (std::size_t i = 0; i < x.size(); i += type.block) {
      const auto at = x.begin() + static_cast<std::ptrdiff_t>(i);
      const std::vector<float> one =
          round_trip(type, {at, at + static_cast<std::ptrdiff_t>(type.block)});
      CHECK(std::memcmp(one.data(), whole.data() + i, one.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("zeros stay zeros and constants stay close") {
  for (const Type& type : kTypes) {
    CAPTURE(type.name);
    const std::vector<float> zeros(256, 0.0F);
    CHECK(rms_difference(zeros, round_trip(type, zeros)) == 0);
    for (const float value : {1.0F, -1.0F, 0.01F}) {
      CAPTURE(value);
      const std::vector<float> x(256, value);
      CHECK(rms_difference(x, round_trip(type, x)) < 0.02 * std::abs(static_cast<double>(value)));
    }
  }
}

TEST_CASE("an outlier costs its own group only") {
  for (const Type& type : kTypes) {
    if (type.block != 32) continue;
    CAPTURE(type.name);
    std::vector<float> x = normal_values(64, 1.0F);
    x[40] = 1000.0F;
    const std::vector<float> back = round_trip(type, x);
    CHECK(rms_difference({x.begin(), x.begin() + 32}, {back.begin(), back.begin() + 32}) < 0.2);
    CHECK(std::abs(back[40] - 1000.0F) < 80.0F);
  }
}

TEST_CASE("values that are not finite or enormous never give values that are not finite") {
  for (const Type& type : kTypes) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::infinity(), 3e38F, -1e20F, 1e-40F}) {
      CAPTURE(type.name, bad);
      std::vector<float> x = normal_values(256, 1e-3F);
      x[77] = bad;
      for (const float value : round_trip(type, x)) REQUIRE(std::isfinite(value));
    }
  }
}
