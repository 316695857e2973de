#include "engine/stream/stop_automaton.hpp"

#include <algorithm>

namespace sluice {
namespace {

/// Whether the text ends with a character of Unicode's White_Space property:
/// U+0009..D, 20, 85, A0, 1680, 2000..200A, 2028, 2029, 202F, 205F, 3000.
bool ends_with_space(std::string_view text) {
  const auto from_end = [&](std::size_t n) {
    return n <= text.size() ? static_cast<unsigned char>(text[text.size() - n]) : 0U;
  };
  const unsigned last = from_end(1);
  if (last < 0x80) return last == ' ' || (last >= '\t' && last <= '\r');
  const unsigned second = from_end(2);
  if (second == 0xC2) return last == 0x85 || last == 0xA0;
  const unsigned third = from_end(3);
  if (third == 0xE1) return second == 0x9A && last == 0x80;
  if (third == 0xE3) return second == 0x80 && last == 0x80;
  if (third != 0xE2) return false;
  if (second == 0x81) return last == 0x9F;
  if (second != 0x80) return false;
  return (last >= 0x80 && last <= 0x8A) || last == 0xA8 || last == 0xA9 || last == 0xAF;
}

}  // namespace

BoundarySet boundaries_after(std::string_view before) {
  BoundarySet set = boundary_bit(StopBoundary::kAnywhere);
  if (before.empty() || before.back() == '\n') set |= boundary_bit(StopBoundary::kLineStart);
  if (before.empty() || ends_with_space(before)) set |= boundary_bit(StopBoundary::kAfterSpace);
  return set;
}

StopAutomaton::StopAutomaton(std::span<const StopString> strings) {
  nodes_.emplace_back();
  rows_.emplace_back().fill(0);
  nodes_[0].row = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    insert(strings[i], static_cast<std::int8_t>(i));
  }
  link(strings);
}

int StopAutomaton::whole_word(const Node& node, BoundarySet holding) const {
  if (node.word < 0) return -1;
  int best = -1;
  const Word& word = words_[static_cast<std::size_t>(node.word)];
  for (unsigned kind = 0; kind < word.size(); ++kind) {
    const int index = word[kind];
    if (index >= 0 && (holding & (1U << kind)) != 0 && (best < 0 || index < best)) best = index;
  }
  return best;
}

std::size_t StopAutomaton::memory_bytes() const {
  return nodes_.capacity() * sizeof(Node) + rows_.capacity() * sizeof(Row) +
         words_.capacity() * sizeof(Word);
}

void StopAutomaton::insert(const StopString& string, std::int8_t index) {
  std::int32_t id = kRoot;
  for (const char c : string.text) {
    nodes_[static_cast<std::size_t>(id)].alive |= boundary_bit(string.boundary);
    const auto byte = static_cast<unsigned char>(c);
    const std::int32_t next = child(node(id), byte);
    id = next != 0 ? next : add_child(id, byte);
  }
  Node& last = nodes_[static_cast<std::size_t>(id)];
  if (last.word < 0) {
    last.word = static_cast<std::int8_t>(words_.size());
    words_.emplace_back().fill(-1);
  }
  std::int8_t& entry =
      words_[static_cast<std::size_t>(last.word)][static_cast<std::size_t>(string.boundary)];
  if (entry < 0) entry = index;
}

std::int32_t StopAutomaton::add_child(std::int32_t parent, unsigned char byte) {
  const auto id = static_cast<std::int32_t>(nodes_.size());
  Node& added = nodes_.emplace_back();
  Node& node = nodes_[static_cast<std::size_t>(parent)];
  added.depth = static_cast<std::int16_t>(node.depth + 1);
  if (node.row < 0 && node.child == 0) {
    node.child = id;
    node.child_byte = byte;
    return id;
  }
  if (node.row < 0) {  // a second child: from now on a row
    node.row = static_cast<std::int16_t>(rows_.size());
    rows_.emplace_back().fill(0);
    rows_.back()[node.child_byte] = node.child;
  }
  rows_[static_cast<std::size_t>(node.row)][byte] = id;
  return id;
}

/// Breadth first, so that a node's links rest on finished shorter words.
void StopAutomaton::link(std::span<const StopString> strings) {
  struct Item {
    std::int32_t id;
    std::size_t string;  // the node's word is the beginning of this string
  };
  // All strings at once, one byte deeper in each round. A node shared by several strings is
  // linked again by each of them, with the same result.
  std::vector<Item> front;
  for (std::size_t i = 0; i < strings.size(); ++i) front.push_back({kRoot, i});
  for (std::size_t depth = 1; !front.empty(); ++depth) {
    std::erase_if(front,
                  [&](const Item& item) { return strings[item.string].text.size() < depth; });
    for (Item& item : front) {
      const std::string_view word = std::string_view(strings[item.string].text).substr(0, depth);
      const std::int32_t parent = item.id;
      item.id = child(node(parent), static_cast<unsigned char>(word.back()));
      link_node(item.id, parent, word);
    }
  }
}

void StopAutomaton::link_node(std::int32_t id, std::int32_t parent, std::string_view word) {
  Node& self = nodes_[static_cast<std::size_t>(id)];
  const auto byte = static_cast<unsigned char>(word.back());
  self.fail = kRoot;
  if (parent != kRoot) {
    std::int32_t candidate = node(parent).fail;
    while (candidate != kRoot && child(node(candidate), byte) == 0) {
      candidate = node(candidate).fail;
    }
    self.fail = child(node(candidate), byte);
  }
  const Node& shorter = node(self.fail);
  const std::size_t start = word.size() - static_cast<std::size_t>(shorter.depth);
  self.fail_boundaries = boundaries_after(word.substr(0, start));

  const int ends_here = whole_word(shorter, self.fail_boundaries);
  self.inner = ends_here >= 0 ? static_cast<std::int8_t>(ends_here) : shorter.inner;

  const bool useful = (shorter.alive & self.fail_boundaries) != 0;
  self.prune = useful ? self.fail : shorter.prune;
  self.prune_boundaries = useful ? self.fail_boundaries : shorter.prune_boundaries;
}

}  // namespace sluice
