#include "engine/model/relative_bias.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace sluice {

std::int32_t relative_bucket(const RelativePositions& relative, std::int64_t distance,
                             bool both_directions) {
  const std::int32_t buckets = both_directions ? relative.buckets / 2 : relative.buckets;
  const std::int32_t first = both_directions && distance > 0 ? buckets : 0;
  const std::int64_t away =
      both_directions ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  const std::int32_t exact = buckets / 2;
  if (away < exact) return first + static_cast<std::int32_t>(away);
  if (away >= relative.max_distance) return first + buckets - 1;
  // In single precision, as the models were trained: it decides distances at a bucket's border.
  const auto smallest = static_cast<float>(exact);
  const float share = std::log(static_cast<float>(away) / smallest) /
                      std::log(static_cast<float>(relative.max_distance) / smallest);
  const auto beyond = static_cast<std::int32_t>(share * static_cast<float>(buckets - exact));
  return first + std::min(exact + beyond, buckets - 1);
}

RelativeBias make_relative_bias(const RelativePositions& relative, std::span<const float> values,
                                std::int32_t num_heads, bool both_directions) {
  const auto heads = static_cast<std::size_t>(num_heads);
  RelativeBias bias;
  bias.reach = static_cast<std::size_t>(relative.max_distance);
  const std::size_t width = 2 * bias.reach + 1;
  bias.table.resize(heads * width);
  for (std::size_t i = 0; i < width; ++i) {
    const auto distance = static_cast<std::int64_t>(i) - relative.max_distance;
    const auto bucket =
        static_cast<std::size_t>(relative_bucket(relative, distance, both_directions));
    for (std::size_t head = 0; head < heads; ++head)
      bias.table[head * width + i] = values[bucket * heads + head];
  }
  return bias;
}

}  // namespace sluice
