#include "engine/kv/block_pool.hpp"

#include <algorithm>
#include <cassert>

namespace sluice {

BlockPool::BlockPool(std::int32_t num_blocks)
    : owners_(static_cast<std::size_t>(std::max(num_blocks, 0)), 0),
      cached_(owners_.size(), 0),
      prev_(owners_.size() + 2),
      next_(owners_.size() + 2) {
  for (const std::size_t ring : {empty_ring(), cached_ring()}) prev_[ring] = next_[ring] = ring;
  for (std::size_t block = 0; block < owners_.size(); ++block) append(empty_ring(), block);
  num_empty_ = total();
}

std::optional<BlockPool::Taken> BlockPool::take() {
  const bool evict = num_empty_ == 0;
  if (evict && num_cached_ == 0) return std::nullopt;
  const std::size_t block = next_[evict ? cached_ring() : empty_ring()];
  unlink(block);
  --(evict ? num_cached_ : num_empty_);
  cached_[block] = 0;
  owners_[block] = 1;
  return Taken{static_cast<BlockId>(block), evict};
}

void BlockPool::share(BlockId id) {
  const std::size_t block = index(id);
  assert(owners_[block] > 0 || cached_[block] != 0);
  if (owners_[block]++ > 0) return;
  unlink(block);
  --num_cached_;
  cached_[block] = 0;
}

void BlockPool::release(BlockId id, bool keep_content) {
  const std::size_t block = index(id);
  assert(owners_[block] > 0);
  if (--owners_[block] > 0) return;
  append(keep_content ? cached_ring() : empty_ring(), block);
  ++(keep_content ? num_cached_ : num_empty_);
  cached_[block] = keep_content ? 1 : 0;
}

std::string BlockPool::audit() const {
  const auto free_blocks = std::count(owners_.begin(), owners_.end(), 0);
  if (free_blocks != num_free()) return "free lists and owner counts disagree";
  std::string fault = audit_ring(empty_ring(), false, num_empty_);
  return fault.empty() ? audit_ring(cached_ring(), true, num_cached_) : fault;
}

void BlockPool::unlink(std::size_t node) {
  next_[prev_[node]] = next_[node];
  prev_[next_[node]] = prev_[node];
}

void BlockPool::append(std::size_t ring, std::size_t node) {
  prev_[node] = prev_[ring];
  next_[node] = ring;
  next_[prev_[ring]] = node;
  prev_[ring] = node;
}

std::string BlockPool::audit_ring(std::size_t ring, bool cached, std::int32_t expected) const {
  std::int32_t length = 0;
  for (std::size_t node = next_[ring]; node != ring; node = next_[node]) {
    if (node >= owners_.size() || ++length > expected) return "a free list is broken";
    if (owners_[node] != 0) return "block " + std::to_string(node) + " is owned and free";
    if ((cached_[node] != 0) != cached)
      return "block " + std::to_string(node) + " is in the wrong free list";
    if (next_[prev_[node]] != node) return "a free list is broken";
  }
  return length == expected ? "" : "a free list is shorter than its count";
}

}  // namespace sluice
