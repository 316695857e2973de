// What can be seen of the KV manager, and whether all of it agrees.
#include <algorithm>
#include <string>

#include "engine/kv/kv_state.hpp"

namespace sluice {

bool KvManager::contains(SequenceId id) const {
  return impl_->sequences.contains(id);
}

bool KvManager::is_swapped(SequenceId id) const {
  const Impl::Sequence* sequence = impl_->find(id);
  return sequence != nullptr && sequence->swapped;
}

std::span<const BlockId> KvManager::table(SequenceId id, std::size_t group) const {
  const Impl::Sequence* sequence = impl_->find(id);
  if (sequence == nullptr || sequence->swapped) return {};
  return sequence->tables[group].blocks;
}

std::size_t KvManager::num_groups() const {
  return impl_->groups.size();
}

std::int32_t KvManager::block_size() const {
  return impl_->options.block_size;
}

KvStats KvManager::stats() const {
  KvStats stats = impl_->counters;
  for (const Impl::Group& group : impl_->groups) {
    stats.total += group.pool.total();
    stats.free += group.pool.num_free();
    stats.cached += group.pool.num_cached();
    stats.swap_total += std::max(group.shape.swap_slots, 0);
    stats.swap_used +=
        std::max(group.shape.swap_slots, 0) - static_cast<std::int32_t>(group.free_slots.size());
  }
  stats.used = stats.total - stats.free;
  stats.sequences = impl_->running();
  stats.swapped_sequences = static_cast<std::int32_t>(impl_->sequences.size()) - stats.sequences;
  return stats;
}

std::vector<KvManager::BlockState> KvManager::block_map(std::size_t group) const {
  const BlockPool& pool = impl_->groups[group].pool;
  std::vector<BlockState> map(at(pool.total()));
  for (std::size_t i = 0; i < map.size(); ++i) {
    map[i].owners = pool.owners(static_cast<BlockId>(i));
    map[i].cached = pool.is_cached(static_cast<BlockId>(i));
  }
  // From the highest number down, so that the lowest is the one that stays.
  for (auto entry = impl_->sequences.rbegin(); entry != impl_->sequences.rend(); ++entry) {
    for (const BlockId block : table(entry->first, group)) {
      if (block != kNoBlock) map[at(block)].first_owner = entry->first;
    }
  }
  return map;
}

namespace {

using Impl = KvManager::Impl;

std::string name(SequenceId id) {
  return "sequence " + std::to_string(id);
}

/// Tables agree with each other and with windows and counts.
std::string audit_tables(const Impl& self, SequenceId id, const Impl::Sequence& sequence) {
  if (sequence.writable < sequence.committed) return name(id) + " has written what it may not";
  for (std::size_t g = 0; g < self.groups.size(); ++g) {
    const Impl::Table& table = sequence.tables[g];
    const Impl::Group& group = self.groups[g];
    if (self.blocks_for(sequence.committed) > table.size()) {
      return name(id) + " has more positions than its table holds";
    }
    if (table.size() != sequence.tables[0].size()) return name(id) + " has tables of two lengths";
    std::int32_t live = 0;
    for (std::int32_t i = 0; i < table.size(); ++i) {
      const bool dead = i >= group.keep_blocks && i < table.freed_to;
      if (dead != (table.blocks[at(i)] == kNoBlock)) return name(id) + " has a hole in its table";
      if (!dead) ++live;
    }
    if (live != table.live) return name(id) + " miscounts its blocks";
    if (table.freed_to > self.dead_end(group, sequence.committed)) {
      return name(id) + " has given back what it still sees";
    }
  }
  return {};
}

std::string audit_contents(const Impl& self, SequenceId id, const Impl::Sequence& sequence) {
  if (!self.options.prefix_cache) return {};
  const auto known = static_cast<Position>(sequence.contents.size()) * self.options.block_size +
                     static_cast<Position>(sequence.tail.size());
  if (known != sequence.committed) return name(id) + " does not know the tokens of its positions";
  ContentId before = sequence.root;
  for (const ContentId content : sequence.contents) {
    if (self.index->parent(content) != before) return name(id) + " has a broken chain of contents";
    before = content;
  }
  return {};
}

/// Blocks with known content are findable as nothing else; those that may be written are nobody
/// else's and can't be found.
std::string audit_writing(const Impl& self, SequenceId id, const Impl::Sequence& sequence) {
  const std::int32_t size = self.options.block_size;
  const std::int32_t tail = sequence.committed / size;
  for (std::size_t g = 0; g < self.groups.size(); ++g) {
    const Impl::Group& group = self.groups[g];
    for (std::int32_t i = 0; i < sequence.tables[g].size(); ++i) {
      const BlockId block = sequence.tables[g].blocks[at(i)];
      if (block == kNoBlock) continue;
      const ContentId as = group.findable_as[at(block)];
      if (at(i) < sequence.contents.size()) {
        if (as != kNoContent && as != sequence.contents[at(i)]) {
          return "block " + std::to_string(block) + " is findable as something else";
        }
        continue;
      }
      const bool may_be_shared = i < tail || (i == tail && sequence.committed % size != 0 &&
                                              sequence.writable == sequence.committed);
      if (!may_be_shared && (as != kNoContent || group.pool.owners(block) != 1)) {
        return "block " + std::to_string(block) + " of " + name(id) +
               " can be written and is shared or findable";
      }
    }
  }
  return {};
}

/// Owner counts, findability and free lists of a group's blocks agree.
std::string audit_blocks(const Impl& self, std::size_t g) {
  const Impl::Group& group = self.groups[g];
  if (std::string fault = group.pool.audit(); !fault.empty()) return fault;
  std::vector<std::int32_t> owners(group.findable_as.size(), 0);
  for (const auto& [id, sequence] : self.sequences) {
    if (sequence.swapped) continue;
    for (const BlockId block : sequence.tables[g].blocks) {
      if (block != kNoBlock) ++owners[at(block)];
    }
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const auto block = static_cast<BlockId>(i);
    const ContentId as = group.findable_as[i];
    const std::string what = "block " + std::to_string(block);
    if (owners[i] != group.pool.owners(block))
      return what + " has another number of owners than tables name it";
    if (as != kNoContent && self.index->block(as, g) != block)
      return what + " is not what the index finds";
    if (group.pool.is_cached(block) && as == kNoContent)
      return what + " is cached and can't be found";
    if (owners[i] == 0 && !group.pool.is_cached(block) && as != kNoContent)
      return what + " is empty and findable";
  }
  return {};
}

/// Every swap slot is free or has one owner.
std::string audit_slots(const Impl& self, std::size_t g) {
  std::vector<std::int32_t> uses(at(std::max(self.groups[g].shape.swap_slots, 0)), 0);
  for (const std::int32_t slot : self.groups[g].free_slots) ++uses[at(slot)];
  for (const auto& [id, sequence] : self.sequences) {
    if (!sequence.swapped) continue;
    for (const std::int32_t slot : sequence.tables[g].blocks) {
      if (slot != kNoBlock) ++uses[at(slot)];
    }
  }
  const bool once = std::ranges::all_of(uses, [](std::int32_t n) { return n == 1; });
  return once ? "" : "a swap slot is lost or used twice";
}

}  // namespace

std::string KvManager::audit() const {
  const Impl& self = *impl_;
  std::string fault;
  for (const auto& [id, sequence] : self.sequences) {
    fault = audit_tables(self, id, sequence);
    if (fault.empty()) fault = audit_contents(self, id, sequence);
    if (fault.empty() && !sequence.swapped) fault = audit_writing(self, id, sequence);
    if (!fault.empty()) return fault;
  }
  for (std::size_t g = 0; g < self.groups.size(); ++g) {
    fault = audit_blocks(self, g);
    if (fault.empty()) fault = audit_slots(self, g);
    if (!fault.empty()) return fault;
  }
  return {};
}

}  // namespace sluice
