#include "engine/kv/prefix_index.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace sluice {
namespace {

/// Stafford's mix 13, the finaliser of SplitMix64.
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

PrefixIndex::PrefixIndex(std::uint64_t seed, std::uint64_t hash_mask, std::size_t num_groups)
    : seed_(seed),
      hash_mask_(hash_mask),
      num_groups_(num_groups),
      followers_(16, Hash{this}, Equal{this}) {}

ContentId PrefixIndex::root(std::string_view salt) {
  if (const ContentId known = find_root(salt); known != kNoContent) return known;
  const ContentId id = new_node();
  nodes_[id].salt = salt;
  roots_.emplace(salt, id);
  return id;
}

ContentId PrefixIndex::find_root(std::string_view salt) const {
  const auto known = roots_.find(salt);
  return known == roots_.end() ? kNoContent : known->second;
}

ContentId PrefixIndex::find(ContentId parent, std::span<const TokenId> tokens) const {
  const auto known = followers_.find(Probe{parent, tokens, hash(parent, tokens)});
  return known == followers_.end() ? kNoContent : *known;
}

ContentId PrefixIndex::find_or_add(ContentId parent, std::span<const TokenId> tokens) {
  if (const ContentId known = find(parent, tokens); known != kNoContent) return known;
  const ContentId id = new_node();
  Node& node = nodes_[id];
  node.parent = parent;
  node.hash = hash(parent, tokens);
  node.tokens.assign(tokens.begin(), tokens.end());
  ++nodes_[parent].uses;
  followers_.insert(id);
  return id;
}

void PrefixIndex::hold(ContentId content) {
  ++nodes_[content].uses;
}

void PrefixIndex::drop(ContentId content) {
  unuse(content);
}

void PrefixIndex::set_block(ContentId content, BlockId block, std::size_t group) {
  BlockId& place = blocks_[content * num_groups_ + group];
  assert(place == kNoBlock && block != kNoBlock);
  place = block;
  ++nodes_[content].uses;
}

void PrefixIndex::clear_block(ContentId content, std::size_t group) {
  BlockId& place = blocks_[content * num_groups_ + group];
  assert(place != kNoBlock);
  place = kNoBlock;
  unuse(content);
}

bool PrefixIndex::Equal::operator()(const Probe& probe, ContentId id) const {
  const Node& node = index->nodes_[id];
  return node.parent == probe.parent && std::ranges::equal(node.tokens, probe.tokens);
}

std::uint64_t PrefixIndex::hash(ContentId parent, std::span<const TokenId> tokens) const {
  std::uint64_t h = mix(seed_ ^ parent);
  for (const TokenId token : tokens) h = mix(std::rotl(h, 23) + static_cast<std::uint32_t>(token));
  return h & hash_mask_;
}

ContentId PrefixIndex::new_node() {
  if (!unused_.empty()) {
    const ContentId id = unused_.back();
    unused_.pop_back();
    return id;
  }
  nodes_.emplace_back();
  blocks_.resize(blocks_.size() + num_groups_, kNoBlock);
  return static_cast<ContentId>(nodes_.size() - 1);
}

void PrefixIndex::unuse(ContentId content) {
  // A content that ends is no longer a follower of its parent, which may end with it: a loop,
  // since a path can be as long as a context.
  while (content != kNoContent) {
    Node& node = nodes_[content];
    assert(node.uses > 0);
    if (--node.uses > 0) return;
    const ContentId parent = node.parent;
    if (parent == kNoContent) {
      roots_.erase(node.salt);
    } else {
      followers_.erase(content);
    }
    node = Node{};
    unused_.push_back(content);
    content = parent;
  }
}

}  // namespace sluice
