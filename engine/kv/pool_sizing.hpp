// How many blocks the groups of a KV pool need for so many sequences of such a length.
//
// A group that sees everything needs ceil(context / block_size) blocks a sequence. In a group with
// a window w that keeps the first k positions a sequence holds, between two steps, at most
//
//   ceil(k / block_size) + ceil(w / block_size) + 1
//
// blocks, whatever its length; during a step the tokens of that step come on top, for all
// sequences together; and a share of the blocks is kept free at admission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/kv_group.hpp"
#include "engine/base/types.hpp"

namespace sluice {

/// Share of a group's blocks that admission keeps free, so that running sequences can grow.
inline constexpr double kAdmissionWatermark = 0.02;

/// A group of layers in a plan.
struct PlanGroup {
  KvVisibility visibility{};
  std::int32_t num_layers = 0;
  std::size_t bytes_per_token = 0;  ///< all its layers together
  std::int32_t num_blocks = 0;
  std::int32_t swap_slots = 0;
};

struct PoolSizing {
  std::vector<PlanGroup> groups;  ///< num_blocks and swap_slots are not looked at
  std::int32_t block_size = 16;
  Position step_tokens = 512;  ///< in one step, all sequences together

  /// Blocks that a sequence of `context` positions holds in a group between two steps at most.
  std::int64_t blocks_held(const PlanGroup& group, Position context) const;
  /// Blocks that a group needs for `sequences` of `context` positions.
  std::int64_t blocks(const PlanGroup& group, std::int64_t sequences, Position context) const;
  /// Bytes of the whole pool; the largest number when it can't be counted or numbered.
  std::size_t bytes(std::int64_t sequences, Position context) const;
  /// Sequences of `context` positions that fit into `bytes`, at most `most`.
  std::int64_t most_sequences(Position context, std::size_t bytes, std::int64_t most) const;
  /// The longest context of `sequences` that fits into `bytes`: `most`, or less in whole blocks.
  Position longest_context(std::int64_t sequences, std::size_t bytes, Position most) const;
  /// The longest context of one sequence in a pool of groups with these numbers of blocks.
  Position longest_alone(const std::vector<PlanGroup>& pool, Position most) const;
};

}  // namespace sluice
