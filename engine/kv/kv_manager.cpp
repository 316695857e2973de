#include "engine/kv/kv_manager.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/kv/kv_state.hpp"

namespace sluice {

KvManager::KvManager(const KvManagerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
KvManager::~KvManager() = default;

KvAdmission KvManager::admit(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
                             const KvFork& fork) {
  KvAdmission answer;
  const auto positions = static_cast<Position>(tokens.size());
  if (!impl_->can_ever_hold(positions)) {
    answer.verdict = KvAdmission::Verdict::kNever;
    return answer;
  }
  if (Impl::Sequence* known = impl_->find(id)) {
    if (!known->swapped || positions <= known->committed) return answer;
    return impl_->resume(*known, positions).value_or(answer);
  }
  const Impl::Start start = impl_->find_start(tokens, salt, fork);
  if (!impl_->fits(start, positions)) return answer;
  impl_->open(id, tokens, salt, start);
  answer.verdict = KvAdmission::Verdict::kAdmitted;
  answer.cached_positions = start.positions;
  return answer;
}

bool KvManager::reserve(SequenceId id, Position positions) {
  Impl::Sequence* sequence = impl_->find(id);
  if (sequence == nullptr || sequence->swapped) return false;
  const bool writes = positions > sequence->committed;
  const std::int32_t blocks = impl_->blocks_for(positions);
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    std::int32_t missing = std::max(0, blocks - sequence->tables[g].size());
    if (writes && impl_->shares_tail(*sequence, g)) ++missing;
    if (missing > impl_->groups[g].pool.num_free()) return false;
  }
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    if (writes) impl_->own_tail(*sequence, g);
    while (sequence->tables[g].size() < blocks) impl_->append_block(*sequence, g);
  }
  if (writes) sequence->writable = sequence->tables[0].size() * impl_->options.block_size;
  return true;
}

void KvManager::commit(SequenceId id, std::span<const TokenId> tokens) {
  Impl::Sequence* sequence = impl_->find(id);
  if (sequence == nullptr || sequence->swapped) return;
  const auto room = static_cast<std::size_t>(sequence->writable - sequence->committed);
  assert(tokens.size() <= room);
  tokens = tokens.first(std::min(tokens.size(), room));
  sequence->committed += static_cast<Position>(tokens.size());
  if (impl_->options.prefix_cache) {
    for (const TokenId token : tokens) impl_->commit_token(*sequence, token);
  }
  impl_->trim(*sequence);
}

Position KvManager::rollback(SequenceId id, Position positions) {
  Impl::Sequence* sequence = impl_->find(id);
  if (sequence == nullptr) return 0;
  positions = std::max(positions, 0);
  if (sequence->swapped) return sequence->committed;
  const std::int32_t size = impl_->options.block_size;
  if (positions >= sequence->committed) {
    impl_->shrink_tables(*sequence, impl_->blocks_for(positions));
    sequence->writable = std::min(sequence->writable, sequence->tables[0].size() * size);
    return sequence->committed;
  }
  while (!impl_->can_fork(*sequence, positions)) {
    // Back to where no window had moved on yet.
    Position kept = positions;
    for (const Impl::Group& group : impl_->groups) {
      if (group.shape.visibility.window > 0) kept = std::min(kept, group.keep_blocks * size);
    }
    positions = kept < positions ? kept : 0;
  }
  impl_->shrink_tables(*sequence, impl_->blocks_for(positions));
  if (impl_->options.prefix_cache) impl_->cut_contents(*sequence, positions);
  sequence->committed = positions;
  // The rest of a block that stays will be written again: nobody may find it, and one that is
  // shared has to be asked for.
  bool shared = false;
  for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
    shared = shared || impl_->shares_tail(*sequence, g);
  }
  for (std::size_t g = 0; !shared && g < impl_->groups.size(); ++g) {
    impl_->own_tail(*sequence, g);
  }
  sequence->writable = shared ? positions : sequence->tables[0].size() * size;
  return positions;
}

void KvManager::release(SequenceId id) {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) return;
  Impl::Sequence& sequence = found->second;
  if (sequence.swapped) {
    for (std::size_t g = 0; g < impl_->groups.size(); ++g) {
      for (const std::int32_t slot : sequence.tables[g].blocks) {
        if (slot != kNoBlock) impl_->groups[g].free_slots.push_back(slot);
      }
    }
  } else {
    impl_->shrink_tables(sequence, 0);
  }
  if (impl_->options.prefix_cache) impl_->index->drop(sequence.held());
  impl_->sequences.erase(found);
}

void KvManager::reset() {
  const KvStats counters = impl_->counters;
  impl_->clear();
  impl_->counters = counters;
}

std::vector<BlockMove> KvManager::take_moves() {
  return std::exchange(impl_->moves, {});
}

}  // namespace sluice
