// Who owns which KV block. Accounting only: the memory itself belongs to the backend.
//
// A sequence is a table of blocks; block i of the table holds positions
// [i * block_size, (i + 1) * block_size). Blocks are reference counted, because sequences with
// the same beginning share them. A full block whose content is known keeps it after its last
// owner has gone: it is then free and cached at once, found again by the hash chain over the
// tokens before it, and reused for something else in least-recently-used order.
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

#include "engine/base/types.hpp"

namespace sluice {

struct KvManagerOptions {
  std::int32_t num_blocks = 0;
  std::int32_t block_size = 16;
  bool prefix_cache = true;
  /// Share of the pool kept free at admission, so that running sequences can grow for a while.
  double admission_watermark = 0.02;
};

/// Outcome of asking for room for a new sequence.
struct KvAdmission {
  enum class Verdict {
    kAdmitted,
    kNotNow,  ///< not enough free blocks at present
    kNever,   ///< more than the whole pool
  };
  Verdict verdict = Verdict::kNotNow;
  Position cached_positions = 0;  ///< leading positions found in the prefix cache; always less
                                  ///< than the prompt, so that there is something to compute
  std::vector<BlockId> blocks;    ///< the shared blocks that hold them
};

struct KvStats {
  std::int32_t total = 0;
  std::int32_t used = 0;    ///< owned by at least one sequence
  std::int32_t free = 0;    ///< total - used
  std::int32_t cached = 0;  ///< free blocks with findable content (part of `free`)
  std::int32_t sequences = 0;
  std::uint64_t prefix_queries_positions = 0;  ///< prompt positions looked up
  std::uint64_t prefix_hits_positions = 0;     ///< of these, found
  std::uint64_t evictions = 0;                 ///< cached blocks given to another content
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
  /// watermark is waived when nothing else is running). Only the cached blocks are taken here.
  /// A sequence that is open already is not opened again: kNotNow.
  KvAdmission admit(SequenceId sequence, std::span<const TokenId> tokens, std::string_view salt);

  /// Grows the table to cover `positions`. All or nothing: empty when there are not enough free
  /// blocks or the sequence is unknown. Otherwise the blocks appended to the table.
  std::optional<std::vector<BlockId>> reserve(SequenceId sequence, Position positions);

  /// Records that `tokens` have been computed at the next positions, in order. Blocks that
  /// became full are findable from now on.
  void commit(SequenceId sequence, std::span<const TokenId> tokens);

  /// Forgets everything from `positions` on and returns blocks no longer needed. The result is
  /// the number of positions left: `positions`, or fewer when there were fewer, or when the cut
  /// goes through a block that another sequence shares. That block can't be written, so it is
  /// given back whole and the positions from its beginning on have to be computed again.
  Position rollback(SequenceId sequence, Position positions);

  /// Closes a sequence; its blocks return, content kept where known.
  void release(SequenceId sequence);

  /// Forgets all sequences and all cached content (after the backend lost its pool).
  void reset();

  bool contains(SequenceId sequence) const;
  std::span<const BlockId> table(SequenceId sequence) const;  ///< empty when unknown
  std::int32_t block_size() const;
  KvStats stats() const;

  /// One state a block, for the block map: owner count, cached or free.
  struct BlockState {
    std::int32_t owners = 0;
    bool cached = false;
    SequenceId first_owner = 0;  ///< meaningful when owners > 0
  };
  std::vector<BlockState> block_map() const;

  /// Checks every invariant (each block owned or free, counts equal tables, list consistency).
  /// Empty when all hold, else a sentence. O(blocks); for tests and debug builds.
  std::string audit() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
