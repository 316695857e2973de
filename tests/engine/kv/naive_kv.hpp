// The KV manager again, as simply as it can be written: whole prefixes as keys, vectors searched
// from end to end. It also plays the memory: what was written into which slot.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/kv/kv_manager.hpp"

namespace sluice::test {

class NaiveKv {
 public:
  NaiveKv(std::int32_t num_blocks, std::int32_t block_size, std::int32_t watermark)
      : num_blocks_(num_blocks), block_size_(block_size), watermark_(watermark) {
    reset();
  }

  struct Sequence {
    std::string salt;
    std::vector<TokenId> tokens;  ///< committed
    std::vector<BlockId> table;
    std::int32_t promised = 0;
  };

  KvAdmission admit(SequenceId id, const std::vector<TokenId>& tokens, const std::string& salt) {
    KvAdmission answer;
    const std::int32_t needed = blocks_for(tokens.size());
    if (needed > num_blocks_) {
      answer.verdict = KvAdmission::Verdict::kNever;
      return answer;
    }
    if (sequences.contains(id)) return answer;
    std::vector<BlockId> hits;
    for (std::size_t end = size(); end < tokens.size(); end += size()) {
      const auto hit = findable.find(key(salt, tokens, end));
      if (hit == findable.end()) break;
      hits.push_back(hit->second);
    }
    std::int32_t promised = 0;
    for (const auto& [other, sequence] : sequences) {
      promised += std::max(0, sequence.promised - static_cast<std::int32_t>(sequence.table.size()));
    }
    const std::int32_t free_after =
        num_free() - static_cast<std::int32_t>(
                         std::ranges::count_if(hits, [&](BlockId b) { return owners(b) == 0; }));
    const std::int32_t fresh = needed - static_cast<std::int32_t>(hits.size());
    if (fresh + promised + (sequences.empty() ? 0 : watermark_) > free_after) return answer;
    Sequence& sequence = sequences[id];
    sequence.salt = salt;
    sequence.promised = needed;
    for (const BlockId block : hits) {
      std::erase(cached, block);
      sequence.table.push_back(block);
    }
    sequence.tokens.assign(tokens.begin(),
                           tokens.begin() + static_cast<std::ptrdiff_t>(hits.size() * size()));
    answer.verdict = KvAdmission::Verdict::kAdmitted;
    answer.cached_positions = static_cast<Position>(sequence.tokens.size());
    answer.blocks = hits;
    return answer;
  }

  std::optional<std::vector<BlockId>> reserve(SequenceId id, Position positions) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return std::nullopt;
    std::vector<BlockId>& table = found->second.table;
    const std::int32_t missing =
        blocks_for(static_cast<std::size_t>(positions)) - static_cast<std::int32_t>(table.size());
    if (missing > num_free()) return std::nullopt;
    std::vector<BlockId> appended;
    for (std::int32_t i = 0; i < missing; ++i) {
      std::vector<BlockId>& list = empty.empty() ? cached : empty;
      const BlockId block = list.front();
      list.erase(list.begin());
      std::erase_if(findable, [&](const auto& entry) { return entry.second == block; });
      appended.push_back(block);
      table.push_back(block);
    }
    return appended;
  }

  /// Writes the tokens into the memory as well. False when a slot that must not be written would
  /// have been.
  bool commit(SequenceId id, std::span<const TokenId> tokens) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return true;
    Sequence& sequence = found->second;
    for (const TokenId token : tokens) {
      const std::size_t position = sequence.tokens.size();
      const BlockId block = sequence.table[position / size()];
      if (owners(block) != 1 || is_findable(block)) return false;
      memory[static_cast<std::size_t>(block) * size() + position % size()] = token;
      sequence.tokens.push_back(token);
      if (sequence.tokens.size() % size() == 0) {
        findable.emplace(key(sequence.salt, sequence.tokens, sequence.tokens.size()), block);
      }
    }
    return true;
  }

  Position rollback(SequenceId id, Position positions) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return 0;
    Sequence& sequence = found->second;
    auto keep = static_cast<std::size_t>(std::max(positions, 0));
    const bool cuts_tokens = keep < sequence.tokens.size();
    if (cuts_tokens && keep % size() != 0 && owners(sequence.table[keep / size()]) > 1) {
      keep -= keep % size();
    }
    pop_to(sequence, static_cast<std::size_t>(blocks_for(keep)));
    if (cuts_tokens) {
      if (keep % size() != 0) {
        const BlockId block = sequence.table[keep / size()];
        std::erase_if(findable, [&](const auto& entry) { return entry.second == block; });
      }
      sequence.tokens.resize(keep);
    }
    return static_cast<Position>(sequence.tokens.size());
  }

  void release(SequenceId id) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return;
    pop_to(found->second, 0);
    sequences.erase(found);
  }

  void reset() {
    sequences.clear();
    findable.clear();
    cached.clear();
    empty.clear();
    for (BlockId block = 0; block < num_blocks_; ++block) empty.push_back(block);
    memory.assign(static_cast<std::size_t>(num_blocks_) * size(), -1);
  }

  std::int32_t owners(BlockId block) const {
    std::int32_t count = 0;
    for (const auto& [id, sequence] : sequences) {
      count += static_cast<std::int32_t>(std::ranges::count(sequence.table, block));
    }
    return count;
  }
  std::int32_t num_free() const { return static_cast<std::int32_t>(empty.size() + cached.size()); }

  /// What a sequence would read: the memory through its table.
  std::vector<TokenId> read(SequenceId id) const {
    const Sequence& sequence = sequences.at(id);
    std::vector<TokenId> tokens;
    for (std::size_t position = 0; position < sequence.tokens.size(); ++position) {
      const auto block = static_cast<std::size_t>(sequence.table[position / size()]);
      tokens.push_back(memory[block * size() + position % size()]);
    }
    return tokens;
  }

  std::map<SequenceId, Sequence> sequences;
  std::vector<BlockId> empty;   ///< first to be taken in front
  std::vector<BlockId> cached;  ///< least recently used in front
  std::map<std::pair<std::string, std::vector<TokenId>>, BlockId> findable;
  std::vector<TokenId> memory;

 private:
  std::size_t size() const { return static_cast<std::size_t>(block_size_); }
  std::int32_t blocks_for(std::size_t positions) const {
    return static_cast<std::int32_t>((positions + size() - 1) / size());
  }
  bool is_findable(BlockId block) const {
    return std::ranges::any_of(findable, [&](const auto& e) { return e.second == block; });
  }
  static std::pair<std::string, std::vector<TokenId>> key(const std::string& salt,
                                                          const std::vector<TokenId>& tokens,
                                                          std::size_t end) {
    return {salt, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end)}};
  }

  void pop_to(Sequence& sequence, std::size_t blocks) {
    while (sequence.table.size() > blocks) {
      const BlockId block = sequence.table.back();
      sequence.table.pop_back();
      if (owners(block) > 0) continue;
      const std::size_t end = (sequence.table.size() + 1) * size();
      if (end <= sequence.tokens.size()) {
        findable.emplace(key(sequence.salt, sequence.tokens, end), block);
      }
      (is_findable(block) ? cached : empty).push_back(block);
    }
  }

  std::int32_t num_blocks_;
  std::int32_t block_size_;
  std::int32_t watermark_;
};

}  // namespace sluice::test
