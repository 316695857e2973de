// Local-global sparse attention, an experiment for long contexts.
#pragma once

#include "engine/base/types.hpp"

namespace sluice {

/// In layers that see everything, position p sees the last `window` positions
/// (itself included) and before these the multiples of `stride`: what is seen
/// depends on positions alone.
///
/// Worked example: window 1024, stride 8, position 4095 sees 3072 .. 4095 and
/// 0, 8, .., 3064, 1 408 positions of 4 096.
struct SparseAttention {
  Position window = 0;  ///< 0: off
  Position stride = 0;

  bool active() const { return window > 0; }
};

}  // namespace sluice
