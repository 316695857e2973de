#include "engine/kv/pool_sizing.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sluice {
namespace {

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The largest n in [0, most] that `fits`, which holds up to some number and not after it.
template <class Fits>
std::int64_t largest(std::int64_t most, Fits fits) {
  std::int64_t low = 0;
  while (low < most) {
    const std::int64_t middle = low + (most - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      most = middle - 1;
    }
  }
  return low;
}

}  // namespace

std::int64_t PoolSizing::blocks_held(const PlanGroup& group, Position context) const {
  const std::int64_t whole = ceil_div(context, block_size);
  if (group.visibility.window <= 0) return whole;
  return std::min(whole, ceil_div(group.visibility.keep_first, block_size) +
                             ceil_div(group.visibility.window, block_size) + 1);
}

std::int64_t PoolSizing::blocks(const PlanGroup& group, std::int64_t sequences,
                                Position context) const {
  const std::int64_t whole = sequences * ceil_div(context, block_size);
  if (group.visibility.window <= 0 || sequences == 0) return whole;
  const std::int64_t in_use =
      sequences * blocks_held(group, context) + ceil_div(step_tokens, block_size) + 1;
  const auto with_watermark = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(in_use) / (1.0 - kAdmissionWatermark)));
  return std::min(whole, with_watermark + 1);
}

std::size_t PoolSizing::bytes(std::int64_t sequences, Position context) const {
  std::size_t sum = 0;
  for (const PlanGroup& group : groups) {
    const std::int64_t count = blocks(group, sequences, context);
    if (count > std::numeric_limits<std::int32_t>::max()) return kMost;
    std::size_t product = 0;
    if (__builtin_mul_overflow(static_cast<std::size_t>(count),
                               group.bytes_per_token * static_cast<std::size_t>(block_size),
                               &product) ||
        __builtin_add_overflow(sum, product, &sum)) {
      return kMost;
    }
  }
  return sum;
}

std::int64_t PoolSizing::most_sequences(Position context, std::size_t limit,
                                        std::int64_t most) const {
  return largest(most, [&](std::int64_t n) { return bytes(n, context) <= limit; });
}

Position PoolSizing::longest_context(std::int64_t sequences, std::size_t limit,
                                     Position most) const {
  if (bytes(sequences, most) <= limit) return most;
  const std::int64_t blocks = largest(most / block_size, [&](std::int64_t n) {
    return bytes(sequences, static_cast<Position>(n * block_size)) <= limit;
  });
  return static_cast<Position>(blocks * block_size);
}

Position PoolSizing::longest_alone(const std::vector<PlanGroup>& pool, Position most) const {
  return static_cast<Position>(largest(most, [&](std::int64_t n) {
    return std::ranges::all_of(pool, [&](const PlanGroup& group) {
      return blocks(group, 1, static_cast<Position>(n)) <= group.num_blocks;
    });
  }));
}

}  // namespace sluice
