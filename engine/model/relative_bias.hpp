// Relative position bias (Raffel et al. 2020, section 2.1): distances fall into buckets, each head
// has a learned value for each bucket, and scores of attention get it added.
//
// Half of the buckets of a direction hold one distance each, the others ranges that grow with its
// logarithm up to max_distance; whatever is farther is in the last. An encoder has half of the
// buckets for what lies behind a position and half for what lies before it, a decoder all of them
// for what lies before.
//
// Worked example, 32 buckets, distances up to 128, an encoder: position 10 sees position 3
// (distance -7) through bucket 7, position 17 (+7) through bucket 23, position 50 (+40) through
// bucket 28.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/model_config.hpp"

namespace sluice {

/// The bias of every distance that has one of its own.
struct RelativeBias {
  std::vector<float> table;  ///< [heads x (2 reach + 1)]: distance -reach .. reach; or empty
  std::size_t reach = 0;     ///< farther distances have the value of this one

  bool present() const { return !table.empty(); }
};

/// Bucket of `distance`, the key's position less the query's.
std::int32_t relative_bucket(const RelativePositions& relative, std::int64_t distance,
                             bool both_directions);

/// `values`: as a file has them, [buckets x heads].
RelativeBias make_relative_bias(const RelativePositions& relative, std::span<const float> values,
                                std::int32_t num_heads, bool both_directions);

}  // namespace sluice
