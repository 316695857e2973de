// Owner counts and free lists of the blocks of one pool. Knows nothing of tokens.
//
// A block is in one of three states: owned (by one or more sequences), free and empty, or free
// with content worth keeping ("cached"). take() hands out empty ones first and then the cached
// one that was used least recently. All operations are O(1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

class BlockPool {
 public:
  explicit BlockPool(std::int32_t num_blocks);

  struct Taken {
    BlockId block = 0;
    bool evicted = false;  ///< it was cached: its content is lost now
  };
  /// Gives a free block its first owner; empty when all blocks are owned.
  std::optional<Taken> take();

  /// Adds an owner to an owned or cached block.
  void share(BlockId block);

  /// Takes an owner away. With the last one the block becomes free: cached, as the most recently
  /// used, when `keep_content`, else empty.
  void release(BlockId block, bool keep_content);

  std::int32_t total() const { return static_cast<std::int32_t>(owners_.size()); }
  std::int32_t num_free() const { return num_empty_ + num_cached_; }
  std::int32_t num_cached() const { return num_cached_; }
  std::int32_t owners(BlockId block) const { return owners_[index(block)]; }
  bool is_cached(BlockId block) const { return cached_[index(block)] != 0; }

  /// Empty when lists and counts agree, else a sentence. O(blocks).
  std::string audit() const;

 private:
  // Both lists are rings through prev_ and next_, closed by a sentinel each.
  std::size_t empty_ring() const { return owners_.size(); }
  std::size_t cached_ring() const { return owners_.size() + 1; }
  static std::size_t index(BlockId block) { return static_cast<std::size_t>(block); }
  void unlink(std::size_t node);
  void append(std::size_t ring, std::size_t node);
  std::string audit_ring(std::size_t ring, bool cached, std::int32_t expected) const;

  std::vector<std::int32_t> owners_;  ///< [num_blocks]
  std::vector<std::uint8_t> cached_;  ///< [num_blocks], 1: in the cached ring
  std::vector<std::size_t> prev_;     ///< [num_blocks + 2]
  std::vector<std::size_t> next_;     ///< [num_blocks + 2]
  std::int32_t num_empty_ = 0;
  std::int32_t num_cached_ = 0;
};

}  // namespace sluice
