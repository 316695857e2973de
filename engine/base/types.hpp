// The small vocabulary shared by every part of the engine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Index of a token in the model's vocabulary, in [0, vocab_size).
using TokenId = std::int32_t;

/// Index of a token in its sequence, counted from 0 at the first prompt token.
/// Also used for counts of positions.
using Position = std::int32_t;

/// Index of a KV block in the pool, in [0, num_blocks).
using BlockId = std::int32_t;

/// Names one sequence for its whole life. Unique in one engine; never reused.
using SequenceId = std::uint64_t;

}  // namespace sluice
