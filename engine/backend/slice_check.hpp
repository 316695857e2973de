// Is a slice one that can be computed? The scheduler promises it; the backend checks.
#pragma once

#include <cstdint>
#include <string>

#include "engine/backend/backend.hpp"

namespace sluice {

struct SliceLimits {
  std::int32_t vocab_size = 0;
  Position max_batch_tokens = 0;
  KvPoolShape pool;        ///< num_blocks 0: none allocated
  Position window = 0;     ///< positions that attention sees at most; 0: all
  Position positions = 0;  ///< that the model has vectors for; 0: any number
  bool encoder = false;    ///< sequences begin with an encoder's input
};

/// Empty when all is well, else one sentence. `tokens_before` are already part of the step (with an
/// encoder: those that the decoder reads).
std::string check_slice(const StepSlice& slice, const SliceLimits& limits,
                        std::size_t tokens_before);

}  // namespace sluice
