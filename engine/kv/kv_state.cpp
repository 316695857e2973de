// Blocks and what is known of their content.
#include "engine/kv/kv_state.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <random>
#include <utility>

namespace sluice {
namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

KvManager::Impl::Impl(const KvManagerOptions& o) : options(o) {
  options.block_size = std::max(options.block_size, 1);
  options.max_chunk = std::max(options.max_chunk, 1);
  clear();
}

void KvManager::Impl::clear() {
  sequences.clear();
  moves.clear();
  groups.clear();
  std::vector<KvGroup> shapes{{options.num_blocks, options.visibility, options.swap_slots}};
  shapes.insert(shapes.end(), options.more_groups.begin(), options.more_groups.end());
  for (KvGroup& shape : shapes) {
    shape.num_blocks = std::max(shape.num_blocks, 0);
    // Without a window everything is kept anyway.
    if (shape.visibility.window <= 0) shape.visibility = {};
    const Position keep = std::max(shape.visibility.keep_first, 0);
    Group group{shape, blocks_for(keep), BlockPool(shape.num_blocks)};
    group.findable_as.assign(at(shape.num_blocks), kNoContent);
    for (std::int32_t slot = std::max(shape.swap_slots, 0); slot > 0; --slot) {
      group.free_slots.push_back(slot - 1);
    }
    groups.push_back(std::move(group));
  }
  index.emplace(random_seed(), ~std::uint64_t{0}, groups.size());
}

KvManager::Impl::Sequence* KvManager::Impl::find(SequenceId id) {
  const auto found = sequences.find(id);
  return found == sequences.end() ? nullptr : &found->second;
}

std::int32_t KvManager::Impl::blocks_for(Position positions) const {
  return static_cast<std::int32_t>((std::int64_t{std::max(positions, 0)} + options.block_size - 1) /
                                   options.block_size);
}

std::int32_t KvManager::Impl::running() const {
  return static_cast<std::int32_t>(
      std::ranges::count_if(sequences, [](const auto& entry) { return !entry.second.swapped; }));
}

// -- windows ----------------------------------------------------------------------------------

std::int32_t KvManager::Impl::dead_end(const Group& group, Position position) const {
  return std::max(group.keep_blocks,
                  group.shape.visibility.first_in_window(position) / options.block_size);
}

std::int32_t KvManager::Impl::peak(const Group& group, Position positions,
                                   Position remaining) const {
  const std::int32_t all = blocks_for(positions);
  const Position window = group.shape.visibility.window;
  if (window <= 0) return all;
  const std::int64_t seen =
      std::int64_t{window} + std::clamp(remaining, 1, options.max_chunk) + options.block_size - 1;
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(all, group.keep_blocks + seen / options.block_size + 1));
}

/// One position more than the next token sees stays: so that a fork can begin at the last token
/// of a prompt that has been computed whole.
void KvManager::Impl::trim(Sequence& sequence) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (groups[g].shape.visibility.window <= 0) continue;
    Table& table = sequence.tables[g];
    const std::int32_t end = std::min(dead_end(groups[g], sequence.committed - 1), table.size());
    for (; table.freed_to < end; ++table.freed_to) {
      free_block(sequence, g, table.freed_to);
      ++counters.trimmed;
    }
  }
}

// -- admission --------------------------------------------------------------------------------

bool KvManager::Impl::can_ever_hold(Position positions) const {
  return std::ranges::all_of(groups, [&](const Group& group) {
    return peak(group, positions, positions) <= group.pool.total();
  });
}

KvManager::Impl::Start KvManager::Impl::find_start(std::span<const TokenId> tokens,
                                                   std::string_view salt, const KvFork& fork) {
  Start cached = find_cached(tokens, salt);
  Sequence* parent = fork.positions > 0 ? find(fork.parent) : nullptr;
  if (parent == nullptr || fork.positions < cached.positions ||
      fork.positions >= static_cast<Position>(tokens.size()) ||
      !can_fork(*parent, fork.positions)) {
    return cached;
  }
  if (options.prefix_cache && index->find_root(salt) != parent->root) return cached;
  Start start{fork.positions, {}, parent};
  if (options.prefix_cache) {
    const auto full = parent->contents.begin() + fork.positions / options.block_size;
    start.contents.assign(parent->contents.begin(), full);
  }
  return start;
}

bool KvManager::Impl::can_fork(const Sequence& parent, Position positions) const {
  if (parent.swapped || parent.committed < positions) return false;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int32_t gone = std::min(parent.tables[g].freed_to, blocks_for(positions));
    if (gone > dead_end(groups[g], positions)) return false;
  }
  return true;
}

/// The longest beginning of `tokens`, without the last of them, of which every group has what the
/// token after it sees.
KvManager::Impl::Start KvManager::Impl::find_cached(std::span<const TokenId> tokens,
                                                    std::string_view salt) const {
  Start best;
  if (!options.prefix_cache) return best;
  const auto size = static_cast<std::size_t>(options.block_size);
  std::vector<ContentId> path;
  struct Found {
    std::int32_t first = 0;   ///< blocks at the beginning without a gap
    std::int32_t recent = 0;  ///< blocks at the end without a gap
  };
  std::vector<Found> found(groups.size());
  ContentId content = index->find_root(salt);
  for (std::size_t begin = 0; content != kNoContent && begin + size < tokens.size();
       begin += size) {
    content = index->find(content, tokens.subspan(begin, size));
    if (content == kNoContent) break;
    path.push_back(content);
    const auto blocks = static_cast<std::int32_t>(path.size());
    const Position positions = blocks * options.block_size;
    bool usable = true;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const bool here = index->block(content, g) != kNoBlock;
      found[g].recent = here ? found[g].recent + 1 : 0;
      if (here && found[g].first == blocks - 1) found[g].first = blocks;
      const bool whole = groups[g].shape.visibility.window <= 0;
      if (whole && !here) return best;  // nothing longer can be whole either
      usable = usable && found[g].first >= std::min(groups[g].keep_blocks, blocks) &&
               found[g].recent >= blocks - std::min(dead_end(groups[g], positions), blocks);
    }
    if (usable) best = {positions, path, nullptr};
  }
  return best;
}

BlockId KvManager::Impl::start_block(const Start& start, std::size_t group, std::int32_t i) const {
  if (i >= groups[group].keep_blocks && i < dead_end(groups[group], start.positions)) {
    return kNoBlock;
  }
  return start.parent != nullptr ? start.parent->tables[group].blocks[at(i)]
                                 : index->block(start.contents[at(i)], group);
}

/// Blocks of a group that admitted sequences still need for what they were admitted with.
std::int32_t KvManager::Impl::outstanding(const Group& group, std::size_t g) const {
  std::int32_t sum = 0;
  for (const auto& [id, sequence] : sequences) {
    if (sequence.swapped) continue;
    const Position remaining = sequence.promised - sequence.committed;
    if (remaining > 0) {
      sum += std::max(0, peak(group, sequence.promised, remaining) - sequence.tables[g].live);
    }
    if (shares_tail(sequence, g)) ++sum;
  }
  return sum;
}

bool KvManager::Impl::has_room(const Group& group, std::size_t g, std::int32_t needed) const {
  std::int32_t watermark = 0;
  if (running() > 0) {
    watermark =
        static_cast<std::int32_t>(std::ceil(options.admission_watermark * group.shape.num_blocks));
  }
  return needed + outstanding(group, g) + watermark <= group.pool.num_free();
}

bool KvManager::Impl::fits(const Start& start, Position positions) const {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::int32_t needed = peak(groups[g], positions, positions - start.positions);
    for (std::int32_t i = 0; i < blocks_for(start.positions); ++i) {
      const BlockId block = start_block(start, g, i);
      if (block != kNoBlock && !groups[g].pool.is_cached(block)) --needed;
    }
    if (start.positions % options.block_size != 0) ++needed;  // a copy of the last block
    if (!has_room(groups[g], g, needed)) return false;
  }
  return true;
}

void KvManager::Impl::open(SequenceId id, std::span<const TokenId> tokens, std::string_view salt,
                           const Start& start) {
  Sequence& sequence = sequences[id];
  sequence.tables.resize(groups.size());
  sequence.promised = static_cast<Position>(tokens.size());
  sequence.committed = sequence.writable = start.positions;
  if (options.prefix_cache) {
    const auto size = static_cast<std::size_t>(options.block_size);
    const auto used = static_cast<std::size_t>(start.positions);
    sequence.root = index->root(salt);
    sequence.contents = start.contents;
    const auto tail = tokens.subspan(used - used % size, used % size);
    sequence.tail.assign(tail.begin(), tail.end());
    index->hold(sequence.held());
    if (start.parent == nullptr) {
      counters.prefix_queries_positions += tokens.size();
      counters.prefix_hits_positions += used;
    }
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Table& table = sequence.tables[g];
    const std::int32_t blocks = blocks_for(start.positions);
    for (std::int32_t i = 0; i < blocks; ++i) {
      table.blocks.push_back(start_block(start, g, i));
      if (table.blocks.back() == kNoBlock) continue;
      groups[g].pool.share(table.blocks.back());
      ++table.live;
    }
    table.freed_to =
        std::max(groups[g].keep_blocks, std::min(dead_end(groups[g], start.positions), blocks));
  }
  // Its last block may be shared now: it has to ask before it writes there.
  if (start.parent != nullptr) start.parent->writable = start.parent->committed;
}

// -- blocks -----------------------------------------------------------------------------------

BlockId KvManager::Impl::take_block(std::size_t g) {
  const std::optional<BlockPool::Taken> taken = groups[g].pool.take();
  assert(taken.has_value());
  if (taken->evicted) {
    ++counters.evictions;
    hide(g, taken->block);
  }
  return taken->block;
}

void KvManager::Impl::append_block(Sequence& sequence, std::size_t g) {
  sequence.tables[g].blocks.push_back(take_block(g));
  ++sequence.tables[g].live;
}

void KvManager::Impl::free_block(Sequence& sequence, std::size_t g, std::int32_t i) {
  Group& group = groups[g];
  const BlockId block = std::exchange(sequence.tables[g].blocks[at(i)], kNoBlock);
  --sequence.tables[g].live;
  const bool last_owner = group.pool.owners(block) == 1;
  // A duplicate takes the place of a block that has been evicted in the meantime.
  if (last_owner && at(i) < sequence.contents.size() &&
      group.findable_as[at(block)] == kNoContent &&
      index->block(sequence.contents[at(i)], g) == kNoBlock) {
    make_findable(g, block, sequence.contents[at(i)]);
  }
  group.pool.release(block, group.findable_as[at(block)] != kNoContent);
}

/// From the end, so that the beginnings of prompts, which more sequences share and without which
/// what follows can't be found, stay longest in the cache.
void KvManager::Impl::shrink_tables(Sequence& sequence, std::int32_t blocks) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Table& table = sequence.tables[g];
    while (table.size() > blocks) {
      if (table.blocks.back() != kNoBlock) free_block(sequence, g, table.size() - 1);
      table.blocks.pop_back();
    }
    table.freed_to = std::max(groups[g].keep_blocks, std::min(table.freed_to, std::max(blocks, 0)));
  }
}

bool KvManager::Impl::shares_tail(const Sequence& sequence, std::size_t g) const {
  if (sequence.committed % options.block_size == 0) return false;
  const BlockId block = sequence.tables[g].blocks[at(sequence.committed / options.block_size)];
  return groups[g].pool.owners(block) > 1;
}

/// Makes the partly filled block one that can be written: a copy when it is shared; when it is
/// findable (whoever shared and filled it has gone) nobody may find it any more.
void KvManager::Impl::own_tail(Sequence& sequence, std::size_t g) {
  if (sequence.committed % options.block_size == 0) return;
  BlockId& block = sequence.tables[g].blocks[at(sequence.committed / options.block_size)];
  if (groups[g].pool.owners(block) > 1) {
    const BlockId copy = take_block(g);
    moves.push_back({BlockMove::Kind::kCopy, static_cast<std::int32_t>(g), block, copy});
    groups[g].pool.release(block, false);
    block = copy;
    ++counters.copies;
  } else if (groups[g].findable_as[at(block)] != kNoContent) {
    hide(g, block);
  }
}

// -- contents ---------------------------------------------------------------------------------

void KvManager::Impl::make_findable(std::size_t g, BlockId block, ContentId content) {
  index->set_block(content, block, g);
  groups[g].findable_as[at(block)] = content;
}

void KvManager::Impl::hide(std::size_t g, BlockId block) {
  index->clear_block(std::exchange(groups[g].findable_as[at(block)], kNoContent), g);
}

void KvManager::Impl::commit_token(Sequence& sequence, TokenId token) {
  sequence.tail.push_back(token);
  if (static_cast<std::int32_t>(sequence.tail.size()) < options.block_size) return;
  const ContentId before = sequence.held();
  const ContentId content = index->find_or_add(before, sequence.tail);
  index->hold(content);
  index->drop(before);
  const std::size_t i = sequence.contents.size();
  sequence.contents.push_back(content);
  sequence.tail.clear();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const BlockId block = sequence.tables[g].blocks[i];
    if (index->block(content, g) == kNoBlock) make_findable(g, block, content);
  }
}

/// Cuts contents and tail down to `positions`, which is less than committed.
void KvManager::Impl::cut_contents(Sequence& sequence, Position positions) {
  const auto full = static_cast<std::size_t>(positions / options.block_size);
  const auto partial = static_cast<std::size_t>(positions % options.block_size);
  if (full < sequence.contents.size()) {
    const std::span<const TokenId> tokens = index->tokens(sequence.contents[full]);
    sequence.tail.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(partial));
    const ContentId before = sequence.held();
    sequence.contents.resize(full);
    index->hold(sequence.held());
    index->drop(before);
  } else {
    sequence.tail.resize(partial);
  }
}

}  // namespace sluice
