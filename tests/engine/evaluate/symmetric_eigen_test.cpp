#include "engine/evaluate/symmetric_eigen.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using namespace sluice;

TEST_CASE("eigenvectors are orthonormal and give the matrix back") {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const std::size_t n : {1U, 2U, 3U, 8U, 33U}) {
    CAPTURE(n);
    std::vector<double> a(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j) a[i * n + j] = a[j * n + i] = normal(random);
    const EigenSystem s = symmetric_eigen(a, n);
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0) CHECK(s.values[i - 1] >= s.values[i]);
      for (std::size_t j = 0; j < n; ++j) {
        double dot = 0;
        double rebuilt = 0;
        for (std::size_t k = 0; k < n; ++k) {
          dot += s.vectors[i * n + k] * s.vectors[j * n + k];
          rebuilt += s.values[k] * s.vectors[k * n + i] * s.vectors[k * n + j];
        }
        CHECK(dot == Approx(i == j ? 1.0 : 0.0).margin(1e-12));
        CHECK(rebuilt == Approx(a[i * n + j]).margin(1e-11));
      }
    }
  }
}

TEST_CASE("diagonal and zero matrices need no rotation") {
  const std::vector<double> diagonal{1.0, 0.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0, -2.0};
  CHECK(symmetric_eigen(diagonal, 3).values == std::vector<double>{5.0, 1.0, -2.0});
  CHECK(symmetric_eigen(std::vector<double>(9, 0.0), 3).values == std::vector<double>(3, 0.0));
}
