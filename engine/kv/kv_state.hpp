// The KV manager's state, shared by the files that implement it by subject:
// kv_manager.cpp (admit, reserve, commit, rollback), kv_state.cpp (blocks and contents),
// kv_swap.cpp (preempt, resume), kv_audit.cpp (observers).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/kv/block_pool.hpp"
#include "engine/kv/kv_manager.hpp"
#include "engine/kv/prefix_index.hpp"

namespace sluice {

inline constexpr ContentId kNoContent = PrefixIndex::kNoContent;

inline std::size_t at(BlockId block) {
  return static_cast<std::size_t>(block);
}

struct KvManager::Impl {
  /// A group of layers: its blocks and who can find them.
  struct Group {
    KvGroup shape;
    std::int32_t keep_blocks = 0;  ///< at the beginning of a table, never given back
    BlockPool pool;
    std::vector<ContentId> findable_as{};    ///< [num_blocks], kNoContent: can't be found
    std::vector<std::int32_t> free_slots{};  ///< of the swap area; the next one at the end
  };

  /// A sequence's blocks in one group. Entries [keep_blocks, freed_to) are kNoBlock. When the
  /// sequence is swapped the entries are slots.
  struct Table {
    std::vector<BlockId> blocks{};
    std::int32_t freed_to = 0;
    std::int32_t live = 0;  ///< entries that are not kNoBlock
    std::int32_t size() const { return static_cast<std::int32_t>(blocks.size()); }
  };

  struct Sequence {
    std::vector<Table> tables;  ///< [groups]
    Position committed = 0;
    Position writable = 0;  ///< positions [committed, writable) lie in blocks of its own
    Position promised = 0;  ///< the tables will grow to this for its prefill
    bool swapped = false;
    // Only with the prefix cache:
    ContentId root = kNoContent;
    std::vector<ContentId> contents;  ///< of the full blocks at the beginning of the tables
    std::vector<TokenId> tail;        ///< committed tokens after those
    /// The one content a sequence holds; it keeps those before it alive.
    ContentId held() const { return contents.empty() ? root : contents.back(); }
  };

  /// Where a new sequence can begin: what others have computed of it.
  struct Start {
    Position positions = 0;
    std::vector<ContentId> contents{};  ///< of its full blocks, with the prefix cache
    Sequence* parent = nullptr;         ///< whose blocks; null: those that the index finds
  };

  explicit Impl(const KvManagerOptions& o);
  void clear();

  Sequence* find(SequenceId id);
  std::int32_t blocks_for(Position positions) const;
  std::int32_t running() const;  ///< sequences that are not swapped

  // -- windows --
  /// End of the blocks, from keep_blocks on, that a token at `position` does not see any more.
  std::int32_t dead_end(const Group& group, Position position) const;
  /// Blocks in use at the most while a sequence of `positions` computes its last `remaining`.
  std::int32_t peak(const Group& group, Position positions, Position remaining) const;
  void trim(Sequence& sequence);

  // -- admission --
  bool can_ever_hold(Position positions) const;
  Start find_start(std::span<const TokenId> tokens, std::string_view salt, const KvFork& fork);
  Start find_cached(std::span<const TokenId> tokens, std::string_view salt) const;
  bool can_fork(const Sequence& parent, Position positions) const;
  /// The block that holds content i of a start; kNoBlock: not seen any more.
  BlockId start_block(const Start& start, std::size_t group, std::int32_t i) const;
  /// Are `needed` blocks of a group free beyond the watermark and what was promised?
  bool has_room(const Group& group, std::size_t index, std::int32_t needed) const;
  std::int32_t outstanding(const Group& group, std::size_t index) const;
  bool fits(const Start& start, Position positions) const;
  void open(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
            const Start& start);
  std::optional<KvAdmission> resume(Sequence& sequence, Position positions);
  bool swap_out(Sequence& sequence);

  // -- blocks --
  BlockId take_block(std::size_t group);
  void append_block(Sequence& sequence, std::size_t group);
  /// Gives back entry i of a table. Its content is still held.
  void free_block(Sequence& sequence, std::size_t group, std::int32_t i);
  void shrink_tables(Sequence& sequence, std::int32_t blocks);
  /// The block that the next committed position falls into is somebody else's as well.
  bool shares_tail(const Sequence& sequence, std::size_t group) const;
  void own_tail(Sequence& sequence, std::size_t group);

  // -- contents --
  void make_findable(std::size_t group, BlockId block, ContentId content);
  void hide(std::size_t group, BlockId block);
  void commit_token(Sequence& sequence, TokenId token);
  void cut_contents(Sequence& sequence, Position positions);

  KvManagerOptions options;
  std::vector<Group> groups;
  std::map<SequenceId, Sequence> sequences;
  std::optional<PrefixIndex> index;
  std::vector<BlockMove> moves;
  KvStats counters;  ///< only those that grow
};

}  // namespace sluice
