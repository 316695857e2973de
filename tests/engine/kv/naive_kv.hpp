// The KV manager again, as simply as it can be written: sequences and their tables.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/kv/kv_manager.hpp"
#include "tests/engine/kv/naive_blocks.hpp"

namespace sluice::test {

class NaiveKv : public NaiveBlocks {
 public:
  /// `watermark_share` as KvManagerOptions::admission_watermark, as one over it.
  NaiveKv(KvManagerOptions options, std::int32_t one_over_watermark)
      : NaiveBlocks(options.block_size),
        options_(std::move(options)),
        one_over_watermark_(one_over_watermark) {
    reset();
  }

  struct Sequence {
    std::string salt;
    std::vector<TokenId> tokens;               ///< committed
    std::vector<std::vector<BlockId>> tables;  ///< [groups]; slots when swapped
    std::size_t writable = 0;
    std::size_t promised = 0;
    bool swapped = false;
  };

  KvAdmission admit(SequenceId id, const std::vector<TokenId>& tokens, const std::string& salt,
                    const KvFork& fork) {
    KvAdmission answer;
    for (const Group& group : groups) {
      if (peak(group, tokens.size(), tokens.size()) > group.shape.num_blocks) {
        answer.verdict = KvAdmission::Verdict::kNever;
        return answer;
      }
    }
    if (const auto known = sequences.find(id); known != sequences.end()) {
      Sequence& sequence = known->second;
      if (!sequence.swapped || tokens.size() <= sequence.tokens.size()) return answer;
      if (!swap_in(sequence, tokens.size())) return answer;
      answer.verdict = KvAdmission::Verdict::kAdmitted;
      answer.cached_positions = static_cast<Position>(sequence.tokens.size());
      return answer;
    }
    // Where to begin: the longest beginning that all groups have, or the parent's.
    std::size_t begin = 0;
    for (std::size_t end = size(); end < tokens.size(); end += size()) {
      if (is_cached(salt, tokens, end)) begin = end;
    }
    const auto parent = sequences.find(fork.parent);
    const auto positions = static_cast<std::size_t>(fork.positions);
    const bool forks = positions > 0 && positions >= begin && positions < tokens.size() &&
                       parent != sequences.end() && has(parent->second, positions);
    if (forks) begin = positions;
    std::vector<std::vector<BlockId>> tables(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i * size() < begin; ++i) {
        BlockId block = kNoBlock;
        if (is_seen(groups[g], i, begin)) {
          block = forks ? parent->second.tables[g][i]
                        : groups[g].findable.at(key(salt, tokens, (i + 1) * size()));
        }
        tables[g].push_back(block);
      }
      std::int32_t fresh = peak(groups[g], tokens.size(), tokens.size() - begin);
      for (const BlockId block : tables[g]) fresh -= block != kNoBlock && owners(g, block) > 0;
      if (begin % size() != 0) ++fresh;
      if (!has_room(g, fresh)) return answer;
    }
    Sequence& sequence = sequences[id];
    sequence.salt = salt;
    sequence.promised = tokens.size();
    sequence.tables = std::move(tables);
    sequence.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(begin));
    sequence.writable = begin;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const BlockId block : sequence.tables[g]) std::erase(groups[g].cached, block);
    }
    if (forks) parent->second.writable = parent->second.tokens.size();
    answer.verdict = KvAdmission::Verdict::kAdmitted;
    answer.cached_positions = static_cast<Position>(begin);
    return answer;
  }

  bool reserve(SequenceId id, Position positions) {
    const auto found = sequences.find(id);
    if (found == sequences.end() || found->second.swapped) return false;
    Sequence& sequence = found->second;
    const bool writes = static_cast<std::size_t>(positions) > sequence.tokens.size();
    const std::size_t blocks = blocks_for(static_cast<std::size_t>(positions));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::size_t missing = blocks - std::min(blocks, sequence.tables[g].size());
      if (writes && shares_tail(sequence, g)) ++missing;
      if (missing > num_free(groups[g])) return false;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (writes) own_tail(sequence, g);
      while (sequence.tables[g].size() < blocks) sequence.tables[g].push_back(take(g));
    }
    if (writes) sequence.writable = sequence.tables[0].size() * size();
    return true;
  }

  /// Makes the moves and writes the tokens into the memory. False when a slot that must not be
  /// written would have been.
  bool commit(SequenceId id, std::span<const TokenId> tokens) {
    make_moves();
    const auto found = sequences.find(id);
    if (found == sequences.end() || found->second.swapped) return true;
    Sequence& sequence = found->second;
    for (const TokenId token : tokens) {
      const std::size_t position = sequence.tokens.size();
      sequence.tokens.push_back(token);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const BlockId block = sequence.tables[g][position / size()];
        if (owners(g, block) != 1 || is_findable(g, block)) return false;
        groups[g].memory[static_cast<std::size_t>(block) * size() + position % size()] = token;
        if (options_.prefix_cache && sequence.tokens.size() % size() == 0) {
          groups[g].findable.emplace(key(sequence.salt, sequence.tokens, sequence.tokens.size()),
                                     block);
        }
      }
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i < sequence.tables[g].size(); ++i) {
        const std::size_t next =
            sequence.tokens.size() - std::min<std::size_t>(sequence.tokens.size(), 1);
        if (sequence.tables[g][i] != kNoBlock && !is_seen(groups[g], i, next)) give(sequence, g, i);
      }
    }
    return true;
  }

  Position rollback(SequenceId id, Position positions) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return 0;
    Sequence& sequence = found->second;
    const std::size_t done = sequence.tokens.size();
    if (sequence.swapped) return static_cast<Position>(done);
    auto keep = static_cast<std::size_t>(std::max(positions, 0));
    if (keep >= done) {
      pop_to(sequence, blocks_for(keep));
      sequence.writable = std::min(sequence.writable, sequence.tables[0].size() * size());
      return static_cast<Position>(done);
    }
    if (!has(sequence, keep)) {
      for (const Group& group : groups) {
        if (group.shape.visibility.window > 0) keep = std::min(keep, kept_blocks(group) * size());
      }
    }
    pop_to(sequence, blocks_for(keep));
    sequence.tokens.resize(keep);
    bool shared = false;
    for (std::size_t g = 0; g < groups.size(); ++g) shared = shared || shares_tail(sequence, g);
    for (std::size_t g = 0; !shared && g < groups.size(); ++g) own_tail(sequence, g);
    sequence.writable = shared ? keep : sequence.tables[0].size() * size();
    return static_cast<Position>(keep);
  }

  bool preempt(SequenceId id) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return false;
    Sequence& sequence = found->second;
    if (sequence.swapped) return true;
    bool fits = !sequence.tokens.empty();
    if (fits) pop_to(sequence, blocks_for(sequence.tokens.size()));
    for (std::size_t g = 0; g < groups.size(); ++g) {
      fits = fits && count(sequence.tables[g]) <= groups[g].free_slots.size();
    }
    if (!fits) {
      release(id);
      return false;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<std::int32_t> slots(sequence.tables[g].size(), kNoBlock);
      for (std::size_t i = slots.size(); i-- > 0;) {
        const BlockId block = sequence.tables[g][i];
        if (block == kNoBlock) continue;
        const std::int32_t slot = groups[g].free_slots.back();
        groups[g].free_slots.pop_back();
        moves.push_back({BlockMove::Kind::kSwapOut, static_cast<std::int32_t>(g), block, slot});
        give(sequence, g, i);
        slots[i] = slot;
      }
      sequence.tables[g] = std::move(slots);
    }
    sequence.writable = sequence.tokens.size();
    sequence.swapped = true;
    return true;
  }

  void release(SequenceId id) {
    const auto found = sequences.find(id);
    if (found == sequences.end()) return;
    if (found->second.swapped) {
      for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const std::int32_t slot : found->second.tables[g]) {
          if (slot != kNoBlock) groups[g].free_slots.push_back(slot);
        }
      }
    } else {
      pop_to(found->second, 0);
    }
    sequences.erase(found);
  }

  void reset() {
    sequences.clear();
    moves.clear();
    groups.clear();
    std::vector<KvGroup> shapes{{options_.num_blocks, options_.visibility, options_.swap_slots}};
    shapes.insert(shapes.end(), options_.more_groups.begin(), options_.more_groups.end());
    for (const KvGroup& shape : shapes) {
      Group group;
      group.shape = shape;
      for (BlockId block = 0; block < shape.num_blocks; ++block) group.empty.push_back(block);
      for (std::int32_t slot = shape.swap_slots; slot-- > 0;) group.free_slots.push_back(slot);
      group.memory.assign(static_cast<std::size_t>(shape.num_blocks) * size(), -1);
      group.swap.assign(static_cast<std::size_t>(shape.swap_slots) * size(), -1);
      groups.push_back(std::move(group));
    }
  }

  std::int32_t owners(std::size_t g, BlockId block) const {
    std::ptrdiff_t count = 0;
    for (const auto& [id, sequence] : sequences) {
      if (!sequence.swapped) count += std::ranges::count(sequence.tables[g], block);
    }
    return static_cast<std::int32_t>(count);
  }
  /// Does every group hold what the sequence's next token sees?
  bool reads_right(const Sequence& sequence) const {
    const auto next = static_cast<Position>(sequence.tokens.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (Position p = 0; p < next; ++p) {
        if (!groups[g].shape.visibility.sees(next, p)) continue;
        const auto position = static_cast<std::size_t>(p);
        const BlockId place = sequence.tables[g][position / size()];
        if (place == kNoBlock) return false;
        const auto& memory = sequence.swapped ? groups[g].swap : groups[g].memory;
        if (memory[static_cast<std::size_t>(place) * size() + position % size()] !=
            sequence.tokens[position]) {
          return false;
        }
      }
    }
    return true;
  }

  std::map<SequenceId, Sequence> sequences;

 private:
  std::size_t blocks_for(std::size_t positions) const { return (positions + size() - 1) / size(); }
  std::size_t kept_blocks(const Group& group) const {
    return blocks_for(static_cast<std::size_t>(group.shape.visibility.keep_first));
  }
  static std::size_t count(const std::vector<BlockId>& table) {
    return table.size() - static_cast<std::size_t>(std::ranges::count(table, kNoBlock));
  }

  /// Is some position of block i, before `next`, seen from there? Blocks are kept whole.
  bool is_seen(const Group& group, std::size_t i, std::size_t next) const {
    if (group.shape.visibility.window <= 0 || i < kept_blocks(group)) return true;
    const auto token = static_cast<Position>(next);
    return static_cast<Position>((i + 1) * size()) > token - group.shape.visibility.window + 1;
  }

  /// The sequence has everything that a token at `positions` sees.
  bool has(const Sequence& sequence, std::size_t positions) const {
    if (sequence.swapped || sequence.tokens.size() < positions) return false;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t i = 0; i < blocks_for(positions); ++i) {
        if (is_seen(groups[g], i, positions) && sequence.tables[g][i] == kNoBlock) return false;
      }
    }
    return true;
  }

  bool is_cached(const std::string& salt, const std::vector<TokenId>& tokens,
                 std::size_t end) const {
    for (const Group& group : groups) {
      for (std::size_t i = 0; i < end / size(); ++i) {
        if (is_seen(group, i, end) &&
            !group.findable.contains(key(salt, tokens, (i + 1) * size()))) {
          return false;
        }
      }
    }
    return true;
  }

  std::int32_t peak(const Group& group, std::size_t positions, std::size_t remaining) const {
    std::size_t blocks = blocks_for(positions);
    if (group.shape.visibility.window > 0) {
      const std::size_t chunk =
          std::clamp<std::size_t>(remaining, 1, static_cast<std::size_t>(options_.max_chunk));
      const auto window = static_cast<std::size_t>(group.shape.visibility.window);
      blocks = std::min(blocks, kept_blocks(group) + blocks_for(window + chunk) + 1);
    }
    return static_cast<std::int32_t>(blocks);
  }

  bool has_room(std::size_t g, std::int32_t needed) const {
    const Group& group = groups[g];
    bool any_running = false;
    for (const auto& [id, sequence] : sequences) {
      if (sequence.swapped) continue;
      any_running = true;
      if (sequence.promised > sequence.tokens.size()) {
        needed +=
            std::max(0, peak(group, sequence.promised, sequence.promised - sequence.tokens.size()) -
                            static_cast<std::int32_t>(count(sequence.tables[g])));
      }
      if (shares_tail(sequence, g)) ++needed;
    }
    if (any_running)
      needed += (group.shape.num_blocks + one_over_watermark_ - 1) / one_over_watermark_;
    return needed <= static_cast<std::int32_t>(num_free(group));
  }

  bool swap_in(Sequence& sequence, std::size_t positions) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto live = static_cast<std::int32_t>(count(sequence.tables[g]));
      const std::int32_t all = peak(groups[g], positions, positions - sequence.tokens.size());
      if (!has_room(g, std::max(live, all))) return false;
    }
    sequence.swapped = false;
    sequence.promised = positions;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      std::vector<BlockId> slots = std::exchange(sequence.tables[g], {});
      for (std::size_t i = 0; i < slots.size(); ++i) {
        sequence.tables[g].push_back(kNoBlock);
        if (slots[i] == kNoBlock) continue;
        const BlockId block = take(g);
        sequence.tables[g][i] = block;
        moves.push_back({BlockMove::Kind::kSwapIn, static_cast<std::int32_t>(g), slots[i], block});
        groups[g].free_slots.push_back(slots[i]);
        remember(sequence, g, i, block);
      }
    }
    return true;
  }

  /// A full block can be found as what it holds, if no other is.
  void remember(const Sequence& sequence, std::size_t g, std::size_t i, BlockId block) {
    const std::size_t end = (i + 1) * size();
    if (!options_.prefix_cache || end > sequence.tokens.size()) return;
    if (!is_findable(g, block)) {
      groups[g].findable.emplace(key(sequence.salt, sequence.tokens, end), block);
    }
  }

  void give(Sequence& sequence, std::size_t g, std::size_t i) {
    const BlockId block = std::exchange(sequence.tables[g][i], kNoBlock);
    if (owners(g, block) > 0) return;
    remember(sequence, g, i, block);
    (is_findable(g, block) ? groups[g].cached : groups[g].empty).push_back(block);
  }

  void pop_to(Sequence& sequence, std::size_t blocks) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      while (sequence.tables[g].size() > blocks) {
        if (sequence.tables[g].back() != kNoBlock) give(sequence, g, sequence.tables[g].size() - 1);
        sequence.tables[g].pop_back();
      }
    }
  }

  bool shares_tail(const Sequence& sequence, std::size_t g) const {
    const std::size_t done = sequence.tokens.size();
    return done % size() != 0 && owners(g, sequence.tables[g][done / size()]) > 1;
  }
  void own_tail(Sequence& sequence, std::size_t g) {
    const std::size_t done = sequence.tokens.size();
    if (done % size() == 0) return;
    BlockId& block = sequence.tables[g][done / size()];
    if (!shares_tail(sequence, g)) return forget(g, block);
    const BlockId copy = take(g);
    moves.push_back({BlockMove::Kind::kCopy, static_cast<std::int32_t>(g), block, copy});
    block = copy;
  }

  KvManagerOptions options_;
  std::int32_t one_over_watermark_;
};

}  // namespace sluice::test
