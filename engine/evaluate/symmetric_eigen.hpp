// Eigenvectors of a small symmetric matrix, by Jacobi's rotations.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace sluice {

struct EigenSystem {
  std::vector<double> values;   ///< [n], falling
  std::vector<double> vectors;  ///< [n x n], a unit vector a row, in the order of the values
};

/// `matrix` is [n x n], symmetric and finite. Cyclic Jacobi (Golub and Van
/// Loan, Matrix Computations, section 8.5); the residual is about n times the
/// rounding of a double.
EigenSystem symmetric_eigen(std::span<const double> matrix, std::size_t n);

}  // namespace sluice
