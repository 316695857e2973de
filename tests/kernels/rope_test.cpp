#include "kernels/cpu/rope.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/kernels/kernel_test_support.hpp"

using namespace sluice::kernels;
using namespace sluice::kernels::test;

namespace {

std::vector<double> frequencies(std::size_t pairs) {
  std::vector<double> f(pairs);
  for (std::size_t i = 0; i < pairs; ++i)
    f[i] = std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs));
  return f;
}

std::vector<float> turned(std::vector<float> x, std::size_t heads, std::size_t pairs,
                          RopePairs layout, std::size_t position) {
  std::vector<float> cosines(pairs);
  std::vector<float> sines(pairs);
  rope_angles(position, frequencies(pairs).data(), pairs, 1.0, cosines.data(), sines.data());
  rope_apply(x.data(), heads, x.size() / heads, pairs, layout, cosines.data(), sines.data());
  return x;
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

TEST_CASE("rope leaves position 0 and elements behind its dimensions alone") {
  std::mt19937 random(1);
  const std::vector<float> x = random_floats(20, random);
  CHECK(turned(x, 2, 5, RopePairs::kNeighbours, 0) == x);
  const std::vector<float> y = turned(x, 2, 3, RopePairs::kHalves, 9);
  for (const std::size_t i : {6U, 7U, 8U, 9U, 16U, 19U}) CHECK(y[i] == x[i]);
  CHECK(y[0] != x[0]);
  CHECK(y[3] != x[3]);
}

TEST_CASE("the product of rotated vectors depends only on their distance") {
  std::mt19937 random(2);
  const std::vector<float> q = random_floats(64, random);
  const std::vector<float> k = random_floats(64, random);
  for (const RopePairs layout : {RopePairs::kNeighbours, RopePairs::kHalves}) {
    const double near = dot(turned(q, 1, 32, layout, 17), turned(k, 1, 32, layout, 5));
    const double far = dot(turned(q, 1, 32, layout, 100012), turned(k, 1, 32, layout, 100000));
    CHECK(near == Approx(far).margin(1e-4));
    CHECK(std::abs(near - dot(q, k)) > 0.01);
  }
}

TEST_CASE("the two pairings differ by a permutation") {
  std::mt19937 random(3);
  const std::vector<float> halves = random_floats(16, random);
  std::vector<float> neighbours(16);
  for (std::size_t i = 0; i < 8; ++i) {
    neighbours[2 * i] = halves[i];
    neighbours[2 * i + 1] = halves[i + 8];
  }
  const std::vector<float> a = turned(halves, 1, 8, RopePairs::kHalves, 77);
  const std::vector<float> b = turned(neighbours, 1, 8, RopePairs::kNeighbours, 77);
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(a[i] == b[2 * i]);
    CHECK(a[i + 8] == b[2 * i + 1]);
  }
}

TEST_CASE("a pair turns by position times frequency") {
  const std::vector<float> y = turned({1.0F, 0.0F}, 1, 1, RopePairs::kNeighbours, 3);
  CHECK(y[0] == Approx(std::cos(3.0)));
  CHECK(y[1] == Approx(std::sin(3.0)));
}
