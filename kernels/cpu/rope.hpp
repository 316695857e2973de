// Rotary position embedding (Su et al. 2021): pairs of elements turn by position x frequency.
#pragma once

#include <cstddef>

namespace sluice::kernels {

enum class RopePairs {
  kNeighbours,  ///< (0,1), (2,3), ...
  kHalves,      ///< (i, i + dims/2)
};

/// Cosines and sines of one position: angle_i = position * frequencies[i], times `magnitude`.
/// `pairs` values each. Computed in double: the angle of a late position needs the digits.
void rope_angles(std::size_t position, const double* frequencies, std::size_t pairs,
                 double magnitude, float* cosines, float* sines);

/// Turns the first 2 * pairs elements of each of `heads` vectors of `head_dim`, in place.
void rope_apply(float* x, std::size_t heads, std::size_t head_dim, std::size_t pairs,
                RopePairs layout, const float* cosines, const float* sines);

}  // namespace sluice::kernels
