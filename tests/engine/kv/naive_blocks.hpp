// The blocks of a naive KV manager: whole prefixes as keys, vectors searched from end to end. They
// also play the memory: what was written into which slot, and what moves have made of it.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/kv_group.hpp"

namespace sluice::test {

class NaiveBlocks {
 public:
  explicit NaiveBlocks(std::int32_t block_size) : block_size_(block_size) {}

  using Prefix = std::pair<std::string, std::vector<TokenId>>;

  struct Group {
    KvGroup shape;
    std::vector<BlockId> empty;   ///< first to be taken in front
    std::vector<BlockId> cached;  ///< least recently used in front
    std::map<Prefix, BlockId> findable;
    std::vector<TokenId> memory;           ///< [num_blocks x block_size]
    std::vector<TokenId> swap;             ///< [swap_slots x block_size]
    std::vector<std::int32_t> free_slots;  ///< next one at the end
  };

  std::vector<Group> groups;
  std::vector<BlockMove> moves;  ///< since they were last taken
  std::vector<BlockMove> waiting_moves;

  void make_moves() {
    for (const BlockMove& move : waiting_moves) {
      Group& group = groups[static_cast<std::size_t>(move.group)];
      auto& from = move.kind == BlockMove::Kind::kSwapIn ? group.swap : group.memory;
      auto& to = move.kind == BlockMove::Kind::kSwapOut ? group.swap : group.memory;
      for (std::size_t i = 0; i < size(); ++i) {
        to[static_cast<std::size_t>(move.to) * size() + i] =
            from[static_cast<std::size_t>(move.from) * size() + i];
      }
    }
    waiting_moves.clear();
  }

  static std::size_t num_free(const Group& group) {
    return group.empty.size() + group.cached.size();
  }

 protected:
  std::size_t size() const { return static_cast<std::size_t>(block_size_); }
  bool is_findable(std::size_t g, BlockId block) const {
    return std::ranges::any_of(groups[g].findable,
                               [&](const auto& e) { return e.second == block; });
  }
  static Prefix key(const std::string& salt, const std::vector<TokenId>& tokens, std::size_t end) {
    return {salt, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end)}};
  }
  BlockId take(std::size_t g) {
    std::vector<BlockId>& list = groups[g].empty.empty() ? groups[g].cached : groups[g].empty;
    const BlockId block = list.front();
    list.erase(list.begin());
    forget(g, block);
    return block;
  }
  void forget(std::size_t g, BlockId block) {
    std::erase_if(groups[g].findable, [&](const auto& entry) { return entry.second == block; });
  }

 private:
  std::int32_t block_size_;
};

}  // namespace sluice::test
