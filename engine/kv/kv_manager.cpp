#include "engine/kv/kv_manager.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "engine/kv/block_pool.hpp"
#include "engine/kv/prefix_index.hpp"

namespace sluice {
namespace {

constexpr ContentId kNoContent = PrefixIndex::kNoContent;
constexpr BlockId kNoBlock = PrefixIndex::kNoBlock;

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::size_t at(BlockId block) {
  return static_cast<std::size_t>(block);
}

}  // namespace

struct KvManager::Impl {
  struct Sequence {
    std::vector<BlockId> table;
    Position committed = 0;
    std::int32_t promised_blocks = 0;  ///< the table will grow to this for its prefill
    // Only with the prefix cache:
    ContentId root = kNoContent;
    std::vector<ContentId> contents;  ///< of the full blocks at the beginning of the table
    std::vector<TokenId> tail;        ///< committed tokens after those
    /// The one content a sequence holds; it keeps those before it alive.
    ContentId held() const { return contents.empty() ? root : contents.back(); }
  };

  explicit Impl(const KvManagerOptions& o) : options(o) {
    options.num_blocks = std::max(options.num_blocks, 0);
    options.block_size = std::max(options.block_size, 1);
    clear();
  }

  void clear() {
    sequences.clear();
    pool.emplace(options.num_blocks);
    index.emplace(random_seed());
    findable_as.assign(static_cast<std::size_t>(options.num_blocks), kNoContent);
  }

  std::int32_t blocks_for(Position positions) const {
    return static_cast<std::int32_t>(
        (std::int64_t{std::max(positions, 0)} + options.block_size - 1) / options.block_size);
  }

  std::int32_t watermark() const {
    if (sequences.empty()) return 0;
    return static_cast<std::int32_t>(std::ceil(options.admission_watermark * options.num_blocks));
  }

  /// Blocks that admitted sequences still need for what they were admitted with.
  std::int32_t outstanding() const {
    std::int32_t sum = 0;
    for (const auto& [id, sequence] : sequences) {
      sum +=
          std::max(0, sequence.promised_blocks - static_cast<std::int32_t>(sequence.table.size()));
    }
    return sum;
  }

  /// Contents of the longest findable beginning of `tokens`, without its last token.
  std::vector<ContentId> find_prefix(std::span<const TokenId> tokens, std::string_view salt) const {
    std::vector<ContentId> found;
    if (!options.prefix_cache) return found;
    const auto size = static_cast<std::size_t>(options.block_size);
    ContentId content = index->find_root(salt);
    for (std::size_t begin = 0; content != kNoContent && begin + size < tokens.size();
         begin += size) {
      content = index->find(content, tokens.subspan(begin, size));
      if (content == kNoContent || index->block(content) == kNoBlock) break;
      found.push_back(content);
    }
    return found;
  }

  BlockId take_block() {
    const std::optional<BlockPool::Taken> taken = pool->take();
    assert(taken.has_value());
    if (taken->evicted) {
      ++evictions;
      hide(taken->block);
    }
    return taken->block;
  }

  void make_findable(BlockId block, ContentId content) {
    index->set_block(content, block);
    findable_as[at(block)] = content;
  }

  void hide(BlockId block) {
    index->clear_block(std::exchange(findable_as[at(block)], kNoContent));
  }

  /// Gives back the last block of a table. The content is still held.
  void pop_block(Sequence& sequence) {
    const std::size_t i = sequence.table.size() - 1;
    const BlockId block = sequence.table[i];
    sequence.table.pop_back();
    const bool last_owner = pool->owners(block) == 1;
    // A duplicate takes the place of a block that has been evicted in the meantime.
    if (last_owner && i < sequence.contents.size() && findable_as[at(block)] == kNoContent &&
        index->block(sequence.contents[i]) == kNoBlock) {
      make_findable(block, sequence.contents[i]);
    }
    pool->release(block, findable_as[at(block)] != kNoContent);
  }

  /// From the end, so that the beginnings of prompts, which more sequences share and without
  /// which what follows can't be found, stay longest in the cache.
  void shrink_table(Sequence& sequence, std::int32_t blocks) {
    while (static_cast<std::int32_t>(sequence.table.size()) > blocks) pop_block(sequence);
  }

  void commit_token(Sequence& sequence, TokenId token) {
    sequence.tail.push_back(token);
    if (static_cast<std::int32_t>(sequence.tail.size()) < options.block_size) return;
    const ContentId before = sequence.held();
    const ContentId content = index->find_or_add(before, sequence.tail);
    index->hold(content);
    index->drop(before);
    const BlockId block = sequence.table[sequence.contents.size()];
    sequence.contents.push_back(content);
    sequence.tail.clear();
    if (index->block(content) == kNoBlock) make_findable(block, content);
  }

  /// Cuts contents and tail down to `positions`, which is less than committed.
  void cut_contents(Sequence& sequence, Position positions) {
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

  KvManagerOptions options;
  std::map<SequenceId, Sequence> sequences;
  std::optional<BlockPool> pool;
  std::optional<PrefixIndex> index;
  std::vector<ContentId> findable_as;  ///< [num_blocks], kNoContent: can't be found
  std::uint64_t queried = 0;
  std::uint64_t hits = 0;
  std::uint64_t evictions = 0;
};

KvManager::KvManager(const KvManagerOptions& options) : impl_(std::make_unique<Impl>(options)) {}
KvManager::~KvManager() = default;

KvAdmission KvManager::admit(SequenceId id, std::span<const TokenId> tokens,
                             std::string_view salt) {
  KvAdmission answer;
  Impl& self = *impl_;
  const std::int32_t needed = self.blocks_for(static_cast<Position>(tokens.size()));
  if (needed > self.options.num_blocks) {
    answer.verdict = KvAdmission::Verdict::kNever;
    return answer;
  }
  if (contains(id)) return answer;
  const std::vector<ContentId> cached = self.find_prefix(tokens, salt);
  std::int32_t taken_from_free = needed - static_cast<std::int32_t>(cached.size());
  for (const ContentId content : cached) {
    if (self.pool->is_cached(self.index->block(content))) ++taken_from_free;
  }
  if (taken_from_free + self.outstanding() + self.watermark() > self.pool->num_free())
    return answer;

  Impl::Sequence& sequence = self.sequences[id];
  sequence.promised_blocks = needed;
  sequence.committed = static_cast<Position>(cached.size()) * self.options.block_size;
  if (self.options.prefix_cache) {
    sequence.root = self.index->root(salt);
    sequence.contents = cached;
    self.index->hold(sequence.held());
    self.queried += tokens.size();
    self.hits += static_cast<std::uint64_t>(sequence.committed);
  }
  for (const ContentId content : cached) {
    sequence.table.push_back(self.index->block(content));
    self.pool->share(sequence.table.back());
  }
  answer.verdict = KvAdmission::Verdict::kAdmitted;
  answer.cached_positions = sequence.committed;
  answer.blocks = sequence.table;
  return answer;
}

std::optional<std::vector<BlockId>> KvManager::reserve(SequenceId id, Position positions) {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) return std::nullopt;
  std::vector<BlockId>& table = found->second.table;
  const std::int32_t missing =
      impl_->blocks_for(positions) - static_cast<std::int32_t>(table.size());
  if (missing > impl_->pool->num_free()) return std::nullopt;
  std::vector<BlockId> appended;
  for (std::int32_t i = 0; i < missing; ++i) appended.push_back(impl_->take_block());
  table.insert(table.end(), appended.begin(), appended.end());
  return appended;
}

void KvManager::commit(SequenceId id, std::span<const TokenId> tokens) {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) return;
  Impl::Sequence& sequence = found->second;
  const std::size_t room =
      sequence.table.size() * static_cast<std::size_t>(impl_->options.block_size) -
      static_cast<std::size_t>(sequence.committed);
  assert(tokens.size() <= room);
  tokens = tokens.first(std::min(tokens.size(), room));
  sequence.committed += static_cast<Position>(tokens.size());
  if (!impl_->options.prefix_cache) return;
  for (const TokenId token : tokens) impl_->commit_token(sequence, token);
}

Position KvManager::rollback(SequenceId id, Position positions) {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) return 0;
  Impl::Sequence& sequence = found->second;
  positions = std::max(positions, 0);
  if (positions >= sequence.committed) {
    impl_->shrink_table(sequence, impl_->blocks_for(positions));
    return sequence.committed;
  }
  const Position offset = positions % impl_->options.block_size;
  const auto boundary = static_cast<std::size_t>(positions / impl_->options.block_size);
  const bool shared = offset > 0 && impl_->pool->owners(sequence.table[boundary]) > 1;
  if (shared) positions -= offset;
  impl_->shrink_table(sequence, impl_->blocks_for(positions));
  if (impl_->options.prefix_cache) {
    // The rest of a boundary block that stays will be written again: nobody may find it.
    if (offset > 0 && !shared && impl_->findable_as[at(sequence.table[boundary])] != kNoContent) {
      impl_->hide(sequence.table[boundary]);
    }
    impl_->cut_contents(sequence, positions);
  }
  sequence.committed = positions;
  return positions;
}

void KvManager::release(SequenceId id) {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) return;
  impl_->shrink_table(found->second, 0);
  if (impl_->options.prefix_cache) impl_->index->drop(found->second.held());
  impl_->sequences.erase(found);
}

void KvManager::reset() {
  impl_->clear();
}

bool KvManager::contains(SequenceId id) const {
  return impl_->sequences.contains(id);
}

std::span<const BlockId> KvManager::table(SequenceId id) const {
  const auto found = impl_->sequences.find(id);
  if (found == impl_->sequences.end()) return {};
  return found->second.table;
}

std::int32_t KvManager::block_size() const {
  return impl_->options.block_size;
}

KvStats KvManager::stats() const {
  KvStats stats;
  stats.total = impl_->pool->total();
  stats.free = impl_->pool->num_free();
  stats.used = stats.total - stats.free;
  stats.cached = impl_->pool->num_cached();
  stats.sequences = static_cast<std::int32_t>(impl_->sequences.size());
  stats.prefix_queries_positions = impl_->queried;
  stats.prefix_hits_positions = impl_->hits;
  stats.evictions = impl_->evictions;
  return stats;
}

std::vector<KvManager::BlockState> KvManager::block_map() const {
  std::vector<BlockState> map(static_cast<std::size_t>(impl_->pool->total()));
  for (std::size_t i = 0; i < map.size(); ++i) {
    map[i].owners = impl_->pool->owners(static_cast<BlockId>(i));
    map[i].cached = impl_->pool->is_cached(static_cast<BlockId>(i));
  }
  // From the highest number down, so that the lowest is the one that stays.
  for (auto entry = impl_->sequences.rbegin(); entry != impl_->sequences.rend(); ++entry) {
    for (const BlockId block : entry->second.table) map[at(block)].first_owner = entry->first;
  }
  return map;
}

std::string KvManager::audit() const {
  const Impl& self = *impl_;
  if (std::string fault = self.pool->audit(); !fault.empty()) return fault;
  std::vector<std::int32_t> owners(self.findable_as.size(), 0);
  for (const auto& [id, sequence] : self.sequences) {
    const std::string who = "sequence " + std::to_string(id);
    for (const BlockId block : sequence.table) ++owners[at(block)];
    if (self.blocks_for(sequence.committed) > static_cast<std::int32_t>(sequence.table.size())) {
      return who + " has more positions than its table holds";
    }
    if (!self.options.prefix_cache) continue;
    const auto known = static_cast<Position>(sequence.contents.size()) * self.options.block_size +
                       static_cast<Position>(sequence.tail.size());
    if (known != sequence.committed) return who + " does not know the tokens of its positions";
    ContentId before = sequence.root;
    for (const ContentId content : sequence.contents) {
      if (self.index->parent(content) != before) return who + " has a broken chain of contents";
      before = content;
    }
    for (std::size_t i = 0; i < sequence.table.size(); ++i) {
      const BlockId block = sequence.table[i];
      const ContentId as = self.findable_as[at(block)];
      if (i < sequence.contents.size()) {
        if (as != kNoContent && as != sequence.contents[i]) {
          return "block " + std::to_string(block) + " is findable as something else";
        }
      } else if (as != kNoContent || self.pool->owners(block) != 1) {
        return "block " + std::to_string(block) + " of " + who +
               " can be written and is shared or findable";
      }
    }
  }
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const auto block = static_cast<BlockId>(i);
    const ContentId as = self.findable_as[i];
    const std::string what = "block " + std::to_string(block);
    if (owners[i] != self.pool->owners(block))
      return what + " has another number of owners than tables name it";
    if (as != kNoContent && self.index->block(as) != block)
      return what + " is not what the index finds";
    if (self.pool->is_cached(block) && as == kNoContent)
      return what + " is cached and can't be found";
    if (owners[i] == 0 && !self.pool->is_cached(block) && as != kNoContent)
      return what + " is empty and findable";
  }
  return {};
}

}  // namespace sluice
