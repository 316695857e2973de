// Words that KV accounting and KV storage share: groups of layers, visibility, moves of blocks.
//
// Layers that see the same positions of a sequence form a group. Each group has its own blocks,
// numbered from 0, and for each sequence its own block table, so that a layer with a window holds
// no more than its window. Most models have one group that sees everything.
//
// Worked example: window 32, keep_first 0, blocks of 16. When position 100 is fed, layers of the
// group see positions 69 to 100. Blocks 0 to 3 (positions 0 to 63) are free again; their entries
// in the table are kNoBlock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

/// Entry of a block table whose block was given back.
inline constexpr BlockId kNoBlock = -1;

/// What a token sees of those before it: position p sees j <= p with j > p - window, or with
/// j < keep_first. A window of 0 sees all.
struct KvVisibility {
  Position window = 0;  ///< positions, the token's own included
  Position keep_first = 0;

  bool operator==(const KvVisibility&) const = default;

  bool sees(Position token, Position other) const {
    return other <= token && (window <= 0 || other > token - window || other < keep_first);
  }
  /// The first position from keep_first on that the token at `position` sees; 0: all are seen.
  Position first_in_window(Position position) const {
    return window <= 0 ? 0 : std::max(position - window + 1, 0);
  }
};

struct KvGroup {
  std::int32_t num_blocks = 0;
  KvVisibility visibility{};
  std::int32_t swap_slots = 0;  ///< places for blocks of preempted sequences, outside the pool
};

/// Content that goes from one place to another before a step.
struct BlockMove {
  enum class Kind {
    kCopy,     ///< block to block
    kSwapOut,  ///< block to swap slot
    kSwapIn,   ///< swap slot to block
  };
  Kind kind = Kind::kCopy;
  std::int32_t group = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;

  bool operator==(const BlockMove&) const = default;
};

}  // namespace sluice
