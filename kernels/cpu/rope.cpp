#include "kernels/cpu/rope.hpp"

#include <cmath>

namespace sluice::kernels {
namespace {

void turn(float& a, float& b, float cosine, float sine) {
  const float old_a = a;
  a = old_a * cosine - b * sine;
  b = old_a * sine + b * cosine;
}

}  // namespace

void rope_angles(std::size_t position, const double* frequencies, std::size_t pairs,
                 double magnitude, float* cosines, float* sines) {
  for (std::size_t i = 0; i < pairs; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cosines[i] = static_cast<float>(std::cos(angle) * magnitude);
    sines[i] = static_cast<float>(std::sin(angle) * magnitude);
  }
}

void rope_apply(float* x, std::size_t heads, std::size_t head_dim, std::size_t pairs,
                RopePairs layout, const float* cosines, const float* sines) {
  for (std::size_t h = 0; h < heads; ++h, x += head_dim) {
    if (layout == RopePairs::kNeighbours) {
      for (std::size_t i = 0; i < pairs; ++i) turn(x[2 * i], x[2 * i + 1], cosines[i], sines[i]);
    } else {
      for (std::size_t i = 0; i < pairs; ++i) turn(x[i], x[i + pairs], cosines[i], sines[i]);
    }
  }
}

}  // namespace sluice::kernels
