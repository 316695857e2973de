#include "kernels/cpu/quantize_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace sluice::kernels {
namespace {

/// Largest group that any type has.
constexpr std::size_t kMaxGroup = 32;
/// Start scales lie around the obvious one, in steps of this part of a level.
constexpr float kStep = 0.1F;

/// How many on each side: with many levels one start is nearly as good as another.
int starts_for(int num_levels) {
  return num_levels > 32 ? 3 : 9;
}

/// Sums for the best scale at given levels: the error is sum x^2 - xq^2 / qq.
struct ScaleSums {
  float xq = 0;
  float qq = 0;

  float gain() const { return qq > 0 ? xq * xq / qq : 0; }
  float scale() const { return qq > 0 ? xq / qq : 0; }
};

ScaleSums sums_at(std::span<const float> x, float inverse, const Levels& levels) {
  ScaleSums sums;
  for (const float value : x) {
    const auto q = static_cast<float>(clamped_level(value * inverse, levels));
    sums.xq += value * q;
    sums.qq += q * q;
  }
  return sums;
}

}  // namespace

float fit_scale(std::span<const float> x, const Levels& levels) {
  float extreme = 0;  // the value of the largest magnitude, with its sign
  for (const float value : x) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  if (extreme == 0 || !std::isfinite(1.0F / extreme)) return 0;
  const int starts = starts_for(levels.highest - levels.lowest + 1);
  float best_gain = 0;
  float best_scale = 0;
  // The extreme value may become the lowest level or the highest.
  for (const int end : {levels.lowest, levels.highest}) {
    for (int k = -starts; k <= starts; ++k) {
      const float level = static_cast<float>(end) + kStep * static_cast<float>(k);
      ScaleSums sums = sums_at(x, level / extreme, levels);
      if (sums.qq > 0 && sums.scale() != 0) {
        const ScaleSums again = sums_at(x, 1.0F / sums.scale(), levels);
        if (again.gain() > sums.gain()) sums = again;
      }
      if (sums.gain() > best_gain) {
        best_gain = sums.gain();
        best_scale = sums.scale();
      }
    }
  }
  return best_scale;
}

namespace {

/// Rounds to levels and solves the two normal equations; keeps the best of all that it tries.
class OffsetFit {
 public:
  OffsetFit(std::span<const float> x, int highest, bool offset_at_most_0)
      : x_(x.first(std::min(x.size(), kMaxGroup))),
        levels_{0, highest},
        offset_at_most_0_(offset_at_most_0) {
    for (const float value : x_) sum_x_ += value;
  }

  /// Levels at a starting scale and offset, then the best of both for these levels.
  ScaleAndOffset improve(const ScaleAndOffset& start) {
    const float inverse = start.scale > 0 ? 1.0F / start.scale : 0;
    float sum_q = 0;
    float sum_qq = 0;
    float sum_xq = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const auto q = static_cast<float>(clamped_level((x_[i] - start.offset) * inverse, levels_));
      q_[i] = q;
      sum_q += q;
      sum_qq += q * q;
      sum_xq += x_[i] * q;
    }
    const auto n = static_cast<float>(x_.size());
    const float determinant = n * sum_qq - sum_q * sum_q;
    ScaleAndOffset fit = start;
    if (determinant > 0) {
      fit.scale = (n * sum_xq - sum_x_ * sum_q) / determinant;
      fit.offset = (sum_qq * sum_x_ - sum_q * sum_xq) / determinant;
    }
    if (offset_at_most_0_ && fit.offset > 0) {
      fit.offset = 0;
      fit.scale = sum_qq > 0 ? sum_xq / sum_qq : 0;
    }
    if (!(fit.scale >= 0)) return start;
    keep(fit);
    return fit;
  }

  const ScaleAndOffset& best() const { return best_; }

 private:
  void keep(const ScaleAndOffset& fit) {
    float error = 0;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      const float difference = fit.scale * q_[i] + fit.offset - x_[i];
      error += difference * difference;
    }
    if (!(error < best_error_)) return;
    best_error_ = error;
    best_ = fit;
  }

  std::span<const float> x_;
  Levels levels_;
  bool offset_at_most_0_;
  float sum_x_ = 0;
  std::array<float, kMaxGroup> q_{};
  float best_error_ = INFINITY;
  ScaleAndOffset best_;
};

}  // namespace

ScaleAndOffset fit_scale_and_offset(std::span<const float> x, int highest, bool offset_at_most_0) {
  float low = *std::min_element(x.begin(), x.end());
  const float high = *std::max_element(x.begin(), x.end());
  if (offset_at_most_0) low = std::min(low, 0.0F);
  const float range = high - low;
  if (!(range > 0) || !std::isfinite(static_cast<float>(highest + 1) / range)) return {0, low};
  OffsetFit fit(x, highest, offset_at_most_0);
  const int starts = starts_for(highest + 1);
  for (int k = -starts; k <= 2 * starts; ++k) {
    const float steps = static_cast<float>(highest) + kStep * static_cast<float>(k);
    if (steps <= 0) continue;
    fit.improve(fit.improve({range / steps, low}));
  }
  fit.improve(fit.best());
  return fit.best();
}

bool can_be_scaled(std::span<const float> x) {
  // Squares of larger ones overflow in the sums; scales are F16 anyway.
  constexpr float kLargest = 1e15F;
  return std::all_of(x.begin(), x.end(), [](float v) { return std::abs(v) <= kLargest; });
}

}  // namespace sluice::kernels
