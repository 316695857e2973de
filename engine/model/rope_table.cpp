#include "engine/model/rope_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace sluice {
namespace {

/// The pair (a fraction) that makes `turns` turns within the original context.
double pair_with_turns(const RopeConfig& rope, std::int32_t dims, double turns) {
  const double wavelength = rope.original_context / (turns * 2.0 * std::numbers::pi);
  return dims * std::log(wavelength) / (2.0 * std::log(static_cast<double>(rope.base)));
}

/// YaRN (Peng et al. 2023): how much of pair i's frequency stays unscaled, from 1 for the fast
/// pairs to 0 for the slow ones.
class YarnRamp {
 public:
  YarnRamp(const RopeConfig& rope, std::int32_t dims)
      : low_(std::max(
            0.0, std::floor(pair_with_turns(rope, dims, static_cast<double>(rope.beta_fast))))),
        high_(std::min(dims - 1.0, std::ceil(pair_with_turns(
                                       rope, dims, static_cast<double>(rope.beta_slow))))) {}

  double unscaled(std::size_t pair) const {
    const double place = (static_cast<double>(pair) - low_) / std::max(0.001, high_ - low_);
    return 1.0 - std::clamp(place, 0.0, 1.0);
  }

 private:
  double low_;
  double high_;
};

double scaled(const RopeConfig& rope, std::int32_t dims, std::size_t pair, double frequency) {
  const double stretched = frequency / static_cast<double>(rope.factor);
  if (rope.scaling == RopeScaling::kLinear) return stretched;
  if (rope.scaling != RopeScaling::kYarn) return frequency;
  const double unscaled = YarnRamp(rope, dims).unscaled(pair);
  return stretched * (1.0 - unscaled) + frequency * unscaled;
}

}  // namespace

RopeTable make_rope_table(const RopeConfig& rope, std::int32_t dims,
                          std::span<const float> factors) {
  RopeTable table;
  table.frequencies.resize(static_cast<std::size_t>(dims) / 2);
  for (std::size_t i = 0; i < table.frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / dims;
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    const double plain = std::pow(static_cast<double>(rope.base), exponent) / factor;
    table.frequencies[i] = scaled(rope, dims, i, plain);
  }
  table.magnitude = static_cast<double>(rope.magnitude);
  // The correction of attention's temperature that YaRN recommends.
  if (rope.scaling == RopeScaling::kYarn)
    table.magnitude *= 1.0 + 0.1 * std::log(static_cast<double>(rope.factor));
  return table;
}

}  // namespace sluice
