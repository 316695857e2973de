// Who owns which KV block. Accounting only: the memory itself belongs to the backend.
//
// A sequence is a table of blocks, one table for each group of layers (see kv_group.hpp); block i
// of a table holds positions [i * block_size, (i + 1) * block_size). In a group with a window,
// blocks that no coming token sees are given back at commit and their entries become kNoBlock.
//
// Blocks are reference counted, because sequences with the same beginning share them. A full
// block whose content is known keeps it after its last owner has gone: it is then free and cached
// at once, found again by the hash chain over the tokens before it, and reused for something else
// in least-recently-used order. A cached beginning serves a sequence as far as every group still
// has what the sequence's next token sees.
//
// Samples of one prompt share also its last, partly filled block (KvFork): whoever writes to it
// first gets a copy. A preempted sequence can go to swap slots and come back. Both leave moves of
// block content to be made, see take_moves().
//
// Worked example, block_size 16, a pool of 64: admit(1, 40 prompt tokens) finds nothing cached;
// reserve(1, 40) takes 3 blocks; commit(1, those 40 tokens) makes the first 2 findable. After
// release(1) all 64 blocks are free, 2 of them cached; admit(2, the same 40 tokens) gets
// 32 positions for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/kv_group.hpp"
#include "engine/base/types.hpp"

namespace sluice {

struct KvManagerOptions {
  std::int32_t num_blocks = 0;
  std::int32_t block_size = 16;
  bool prefix_cache = true;
  /// Share of the pool kept free at admission, so that running sequences can grow for a while.
  double admission_watermark = 0.02;
  KvVisibility visibility{};    ///< of the first group, which `num_blocks` is for
  std::int32_t swap_slots = 0;  ///< likewise; 0: preempted sequences are released
  std::vector<KvGroup> more_groups{};
  Position max_chunk = 512;  ///< tokens of one sequence in a step: more blocks of a group with a
                             ///< window are in use while they are computed
};

/// A sequence to share blocks with. The caller promises that the first `positions` tokens and the
/// salt are the same for both. Used when that sequence has computed them, still holds what is
/// seen from there, and the prefix cache has no more.
struct KvFork {
  SequenceId parent = 0;
  Position positions = 0;  ///< 0: none
};

/// Outcome of asking for room for a new sequence.
struct KvAdmission {
  enum class Verdict {
    kAdmitted,
    kNotNow,  ///< not enough free blocks at present
    kNever,   ///< more than the whole pool
  };
  Verdict verdict = Verdict::kNotNow;
  Position cached_positions = 0;  ///< leading positions that are there already (prefix cache,
                                  ///< fork, swap); always less than the prompt, so that there is
                                  ///< something to compute
};

/// All groups together.
struct KvStats {
  std::int32_t total = 0;
  std::int32_t used = 0;       ///< owned by at least one sequence
  std::int32_t free = 0;       ///< total - used
  std::int32_t cached = 0;     ///< free blocks with findable content (part of `free`)
  std::int32_t sequences = 0;  ///< swapped ones not counted
  std::int32_t swapped_sequences = 0;
  std::int32_t swap_total = 0;  ///< slots
  std::int32_t swap_used = 0;
  std::uint64_t prefix_queries_positions = 0;  ///< prompt positions looked up
  std::uint64_t prefix_hits_positions = 0;     ///< of these, found
  std::uint64_t evictions = 0;                 ///< cached blocks given to another content
  std::uint64_t copies = 0;                    ///< of shared blocks before they were written
  std::uint64_t trimmed = 0;                   ///< blocks given back because of a window
  std::uint64_t swapped_out = 0;               ///< blocks
};

/// Not thread-safe. Unknown sequences are not an error for release and commit (their owner may
/// have died a moment before); the others say so in their result.
class KvManager {
 public:
  explicit KvManager(const KvManagerOptions& options);
  ~KvManager();
  KvManager(const KvManager&) = delete;
  KvManager& operator=(const KvManager&) = delete;

  /// Opens a sequence. `tokens` is everything that will be prefilled; `salt` separates callers
  /// that must not share cache. Admits when blocks for all of `tokens` are free beyond the
  /// watermark and beyond what sequences admitted before still need for their own prefill (the
  /// watermark is waived when nothing else is running). Only blocks that are there already are
  /// taken here. A sequence that is open already is not opened again: kNotNow. One that was
  /// swapped out comes back with what it had.
  KvAdmission admit(SequenceId sequence, std::span<const TokenId> tokens, std::string_view salt,
                    const KvFork& fork = {});

  /// Grows the tables to cover `positions` and makes those after the committed ones writable. All
  /// or nothing: false when there are not enough free blocks or the sequence is unknown.
  bool reserve(SequenceId sequence, Position positions);

  /// Records that `tokens` have been computed at the next positions, in order; they have been
  /// reserved. Blocks that became full are findable from now on, blocks that no coming token sees
  /// are given back.
  void commit(SequenceId sequence, std::span<const TokenId> tokens);

  /// Forgets everything from `positions` on and returns blocks no longer needed. The result is
  /// the number of positions left: `positions`, or fewer when there were fewer, or when a window
  /// has moved on and what the next token would see there is gone.
  Position rollback(SequenceId sequence, Position positions);

  /// Takes a sequence's blocks away, for another. With enough swap slots its content goes there:
  /// the sequence stays open, and admit() brings it back (true). Else it is closed (false).
  bool preempt(SequenceId sequence);

  /// Closes a sequence; its blocks return, content kept where known.
  void release(SequenceId sequence);

  /// Forgets all sequences and all cached content (after the backend lost its pool).
  void reset();

  /// What to do with the content of blocks, in this order, before the next step writes anything:
  /// all that came up since the last call.
  std::vector<BlockMove> take_moves();

  bool contains(SequenceId sequence) const;
  bool is_swapped(SequenceId sequence) const;
  /// Empty when unknown or swapped.
  std::span<const BlockId> table(SequenceId sequence, std::size_t group = 0) const;
  std::size_t num_groups() const;
  std::int32_t block_size() const;
  KvStats stats() const;

  /// One state a block, for the block map: owner count, cached or free.
  struct BlockState {
    std::int32_t owners = 0;
    bool cached = false;
    SequenceId first_owner = 0;  ///< meaningful when owners > 0
  };
  std::vector<BlockState> block_map(std::size_t group = 0) const;

  /// Checks every invariant (each block owned or free, counts equal tables, list consistency).
  /// Empty when all hold, else a sentence. O(blocks); for tests and debug builds.
  std::string audit() const;

  struct Impl;  ///< for the files that implement it

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
