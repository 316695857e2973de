// Preempted sequences: out to swap slots, and back.
#include <algorithm>
#include <optional>
#include <utility>

#include "engine/kv/kv_state.hpp"

namespace sluice {

bool KvManager::preempt(SequenceId id) {
  Impl::Sequence* sequence = impl_->find(id);
  if (sequence == nullptr) return false;
  if (sequence->swapped || impl_->swap_out(*sequence)) return true;
  release(id);
  return false;
}

bool KvManager::Impl::swap_out(Sequence& sequence) {
  if (sequence.committed == 0) return false;
  shrink_tables(sequence, blocks_for(sequence.committed));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (at(sequence.tables[g].live) > groups[g].free_slots.size()) return false;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Table& table = sequence.tables[g];
    const std::int32_t live = table.live;
    // From the end, as every table is given back.
    for (std::int32_t i = table.size() - 1; i >= 0; --i) {
      const BlockId block = table.blocks[at(i)];
      if (block == kNoBlock) continue;
      const std::int32_t slot = groups[g].free_slots.back();
      groups[g].free_slots.pop_back();
      moves.push_back({BlockMove::Kind::kSwapOut, static_cast<std::int32_t>(g), block, slot});
      free_block(sequence, g, i);
      table.blocks[at(i)] = slot;
      ++counters.swapped_out;
    }
    table.live = live;
  }
  sequence.writable = sequence.committed;
  sequence.swapped = true;
  return true;
}

/// Empty when there is no room now.
std::optional<KvAdmission> KvManager::Impl::resume(Sequence& sequence, Position positions) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int32_t needed = std::max(
        sequence.tables[g].live, peak(groups[g], positions, positions - sequence.committed));
    if (!has_room(groups[g], g, needed)) return std::nullopt;
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Table& table = sequence.tables[g];
    for (std::size_t i = 0; i < table.blocks.size(); ++i) {
      const std::int32_t slot = table.blocks[i];
      if (slot == kNoBlock) continue;
      const BlockId block = take_block(g);
      moves.push_back({BlockMove::Kind::kSwapIn, static_cast<std::int32_t>(g), slot, block});
      groups[g].free_slots.push_back(slot);
      table.blocks[i] = block;
      if (i < sequence.contents.size() && index->block(sequence.contents[i], g) == kNoBlock) {
        make_findable(g, block, sequence.contents[i]);
      }
    }
  }
  sequence.swapped = false;
  sequence.promised = positions;
  KvAdmission answer;
  answer.verdict = KvAdmission::Verdict::kAdmitted;
  answer.cached_positions = sequence.committed;
  return answer;
}

}  // namespace sluice
