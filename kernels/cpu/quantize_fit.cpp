#include "kernels/cpu/quantize_fit.hpp"

#include <algorithm>
#include <cmath>

namespace sluice::kernels {
namespace {

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

ScaleSums sums_at(std::span<const float> x, float inverse, float lowest, float highest) {
  Lanes xq{};
  Lanes qq{};
  for_lanes(x.size(), [&](std::size_t i, std::size_t lane) {
    const float q = nearest_level(x[i] * inverse, lowest, highest);
    xq[lane] += x[i] * q;
    qq[lane] += q * q;
  });
  return {sum_of(xq), sum_of(qq)};
}

}  // namespace

float fit_scale(std::span<const float> x, const Levels& levels) {
  float extreme = 0;  // the value of the largest magnitude, with its sign
  for (const float value : x) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  if (extreme == 0 || !std::isfinite(1.0F / extreme)) return 0;
  const auto lowest = static_cast<float>(levels.lowest);
  const auto highest = static_cast<float>(levels.highest);
  const int starts = starts_for(levels.highest - levels.lowest + 1);
  ScaleSums best;
  const auto keep = [&](const ScaleSums& sums) {
    if (sums.gain() > best.gain()) best = sums;
  };
  // The extreme value may become the lowest level or the highest.
  for (const float end : {lowest, highest}) {
    for (int k = -starts; k <= starts; ++k) {
      const float level = end + kStep * static_cast<float>(k);
      keep(sums_at(x, level / extreme, lowest, highest));
    }
  }
  // Rounding to the best scale found may better the levels once more.
  for (int round = 0; round < 2 && best.scale() != 0; ++round) {
    keep(sums_at(x, 1.0F / best.scale(), lowest, highest));
  }
  return best.scale();
}

namespace {

/// Rounds to levels and solves the two normal equations; keeps the best of all that it tries.
class OffsetFit {
 public:
  OffsetFit(std::span<const float> x, int highest, bool offset_at_most_0)
      : x_(x), highest_(static_cast<float>(highest)), offset_at_most_0_(offset_at_most_0) {
    Lanes sum{};
    Lanes squares{};
    for_lanes(x.size(), [&](std::size_t i, std::size_t lane) {
      sum[lane] += x[i];
      squares[lane] += x[i] * x[i];
    });
    sum_x_ = static_cast<double>(sum_of(sum));
    sum_xx_ = static_cast<double>(sum_of(squares));
  }

  /// Levels at a starting scale and offset, then the best of both for these levels.
  void try_from(const ScaleAndOffset& start) {
    if (!(start.scale > 0)) return;
    const float inverse = 1.0F / start.scale;
    const float offset = start.offset;
    Lanes lanes_q{};
    Lanes lanes_qq{};
    Lanes lanes_xq{};
    for_lanes(x_.size(), [&](std::size_t i, std::size_t lane) {
      const float q = nearest_level((x_[i] - offset) * inverse, 0.0F, highest_);
      lanes_q[lane] += q;
      lanes_qq[lane] += q * q;
      lanes_xq[lane] += x_[i] * q;
    });
    keep(static_cast<double>(sum_of(lanes_q)), static_cast<double>(sum_of(lanes_qq)),
         static_cast<double>(sum_of(lanes_xq)));
  }

  const ScaleAndOffset& best() const { return best_; }

 private:
  void keep(double q, double qq, double xq) {
    const auto n = static_cast<double>(x_.size());
    const double determinant = n * qq - q * q;
    double scale = (n * xq - sum_x_ * q) / determinant;
    double offset = (qq * sum_x_ - q * xq) / determinant;
    const bool all_at_one_level = !(determinant > 0);
    if (all_at_one_level || (offset_at_most_0_ && offset > 0)) {
      offset = 0;
      scale = xq / qq;
    }
    if (!(scale > 0)) return;
    const double error = sum_xx_ + scale * scale * qq + n * offset * offset +
                         2 * (scale * offset * q - scale * xq - offset * sum_x_);
    if (!(error < best_error_)) return;
    best_error_ = error;
    best_ = {static_cast<float>(scale), static_cast<float>(offset)};
  }

  std::span<const float> x_;
  float highest_;
  bool offset_at_most_0_;
  double sum_x_ = 0;
  double sum_xx_ = 0;
  double best_error_ = INFINITY;
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
  for (int k = -starts; k <= starts; ++k) {
    const float steps = static_cast<float>(highest) + kStep * static_cast<float>(k);
    if (steps > 0) fit.try_from({range / steps, low});
  }
  for (int round = 0; round < 4; ++round) fit.try_from(fit.best());
  return fit.best();
}

bool can_be_scaled(std::span<const float> x) {
  // Squares of larger ones overflow in the sums; scales are F16 anyway.
  constexpr float kLargest = 1e15F;
  return std::all_of(x.begin(), x.end(), [](float v) { return std::abs(v) <= kLargest; });
}

}  // namespace sluice::kernels
