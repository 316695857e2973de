// What is in which block: a tree of block contents.
//
// A content is "these block_size tokens after that content"; the roots are the callers' salts.
// So two contents are the same exactly when every token from the beginning is the same (and the
// salt): a path is compared token by token, never by hash alone. At most one block of each group
// is findable for a content. A content lives while it has a block, a follower, or a holder (a
// sequence whose table ends in it); so the tree never outgrows what is in the pool or running.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "engine/base/kv_group.hpp"
#include "engine/base/types.hpp"

namespace sluice {

/// Names a content. Numbers are used again after the content has gone.
using ContentId = std::uint32_t;

class PrefixIndex {
 public:
  static constexpr ContentId kNoContent = 0xFFFFFFFF;

  /// `seed` enters every hash, so that nobody can prepare prompts that collide; `hash_mask` cuts
  /// the hashes down (tests let all of them collide).
  explicit PrefixIndex(std::uint64_t seed, std::uint64_t hash_mask = ~std::uint64_t{0},
                       std::size_t num_groups = 1);
  // The set's functions point back to the index.
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  /// The root of a salt, created when new. Hold it before anything else changes.
  ContentId root(std::string_view salt);
  /// kNoContent when nobody uses this salt.
  ContentId find_root(std::string_view salt) const;

  /// The content `tokens` after `parent`; kNoContent when unknown.
  ContentId find(ContentId parent, std::span<const TokenId> tokens) const;
  /// The same, created when new. Hold it or give it a block before anything else changes.
  ContentId find_or_add(ContentId parent, std::span<const TokenId> tokens);

  /// Keeps a content alive; drop() takes that back.
  void hold(ContentId content);
  void drop(ContentId content);

  std::span<const TokenId> tokens(ContentId content) const { return nodes_[content].tokens; }
  ContentId parent(ContentId content) const { return nodes_[content].parent; }
  /// kNoBlock when none of the group holds it.
  BlockId block(ContentId content, std::size_t group = 0) const {
    return blocks_[content * num_groups_ + group];
  }
  /// Makes `block` findable. The content has none in this group yet.
  void set_block(ContentId content, BlockId block, std::size_t group = 0);
  /// Its block can't be found any more; the content itself may end with that.
  void clear_block(ContentId content, std::size_t group = 0);

  std::size_t size() const { return nodes_.size() - unused_.size(); }

 private:
  struct Node {
    ContentId parent = kNoContent;
    std::uint32_t uses = 0;  ///< followers + holders + blocks
    std::uint64_t hash = 0;
    std::vector<TokenId> tokens;  ///< empty for a root
    std::string salt;             ///< of a root
  };
  /// Looks for a content that has no node yet.
  struct Probe {
    ContentId parent;
    std::span<const TokenId> tokens;
    std::uint64_t hash;
  };
  struct Hash {
    using is_transparent = void;
    const PrefixIndex* index;
    std::size_t operator()(ContentId id) const { return index->nodes_[id].hash; }
    std::size_t operator()(const Probe& probe) const { return probe.hash; }
  };
  struct Equal {
    using is_transparent = void;
    const PrefixIndex* index;
    bool operator()(ContentId a, ContentId b) const { return a == b; }
    bool operator()(const Probe& probe, ContentId id) const;
    bool operator()(ContentId id, const Probe& probe) const { return (*this)(probe, id); }
  };

  std::uint64_t hash(ContentId parent, std::span<const TokenId> tokens) const;
  ContentId new_node();
  void unuse(ContentId content);

  std::uint64_t seed_;
  std::uint64_t hash_mask_;
  std::size_t num_groups_;
  std::vector<Node> nodes_;
  std::vector<BlockId> blocks_;    ///< [nodes x num_groups]
  std::vector<ContentId> unused_;  ///< free places in nodes_
  std::unordered_set<ContentId, Hash, Equal> followers_;
  std::map<std::string, ContentId, std::less<>> roots_;
};

}  // namespace sluice
