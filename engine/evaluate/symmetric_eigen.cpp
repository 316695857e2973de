#include "engine/evaluate/symmetric_eigen.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sluice {
namespace {

constexpr int kMostSweeps = 60;  // converges quadratically; 10 are usual

class Jacobi {
 public:
  Jacobi(std::span<const double> matrix, std::size_t n)
      : n_(n), a_(matrix.begin(), matrix.end()), v_(n * n, 0.0) {
    for (std::size_t i = 0; i < n; ++i) v_[i * n + i] = 1.0;
  }

  void run() {
    const double scale =
        std::sqrt(std::inner_product(a_.begin(), a_.end(), a_.begin(), 0.0)) * 1e-15;
    for (int sweep = 0; sweep < kMostSweeps && off_diagonal() > scale; ++sweep)
      for (std::size_t p = 0; p + 1 < n_; ++p)
        for (std::size_t q = p + 1; q < n_; ++q) rotate(p, q);
  }

  EigenSystem sorted() const {
    std::vector<std::size_t> order(n_);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](std::size_t x, std::size_t y) { return a_[x * n_ + x] > a_[y * n_ + y]; });
    EigenSystem system;
    for (const std::size_t i : order) {
      system.values.push_back(a_[i * n_ + i]);
      for (std::size_t j = 0; j < n_; ++j) system.vectors.push_back(v_[i * n_ + j]);
    }
    return system;
  }

 private:
  double off_diagonal() const {
    double sum = 0.0;
    for (std::size_t i = 0; i < n_; ++i)
      for (std::size_t j = 0; j < i; ++j) sum += a_[i * n_ + j] * a_[i * n_ + j];
    return std::sqrt(2.0 * sum);
  }

  /// Turns the plane of p and q so that a[p][q] becomes 0.
  void rotate(std::size_t p, std::size_t q) {
    const double apq = a_[p * n_ + q];
    if (apq == 0.0) return;
    const double tau = (a_[q * n_ + q] - a_[p * n_ + p]) / (2.0 * apq);
    const double t = (tau >= 0.0 ? 1.0 : -1.0) / (std::abs(tau) + std::hypot(1.0, tau));
    const double c = 1.0 / std::hypot(1.0, t);
    const double s = t * c;
    for (std::size_t i = 0; i < n_; ++i) turn(a_[i * n_ + p], a_[i * n_ + q], c, s);
    for (std::size_t i = 0; i < n_; ++i) turn(a_[p * n_ + i], a_[q * n_ + i], c, s);
    for (std::size_t i = 0; i < n_; ++i) turn(v_[p * n_ + i], v_[q * n_ + i], c, s);
  }

  static void turn(double& x, double& y, double c, double s) {
    const double before = x;
    x = c * before - s * y;
    y = s * before + c * y;
  }

  std::size_t n_;
  std::vector<double> a_;
  std::vector<double> v_;  ///< a vector a row
};

}  // namespace

EigenSystem symmetric_eigen(std::span<const double> matrix, std::size_t n) {
  Jacobi jacobi(matrix, n);
  jacobi.run();
  return jacobi.sorted();
}

}  // namespace sluice
