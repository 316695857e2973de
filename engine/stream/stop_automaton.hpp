// The automaton behind StopMatcher: Aho-Corasick over bytes, extended by boundary conditions.
//
// A node is a prefix of some stop string (its "word"). Two facts keep the cost of a byte constant
// although a boundary may reject a candidate:
//
// - Whether a boundary holds at a place *inside* a word is a property of the word. So for every
//   node it is known beforehand which shorter stop string ends there (`inner`) and which shorter
//   word is still of use (`prune`). Only the start of the word itself depends on the text before.
// - A word whose start no boundary accepts can never become a match, however it goes on. Dropping
//   it at once makes the current node exactly the text to hold back.
//
// A node has one child almost always: at most 63 nodes branch, however long the 64 strings are.
// Those have a row of 256 entries, all others one (byte, child) pair; 64 strings of 1 KiB take
// less than 2 MiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/stream/request.hpp"

namespace sluice {

/// Set of boundary kinds: bit k stands for StopBoundary k.
using BoundarySet = std::uint8_t;

constexpr BoundarySet boundary_bit(StopBoundary boundary) {
  return static_cast<BoundarySet>(1U << static_cast<unsigned>(boundary));
}

/// The boundary conditions that hold after `before`, of which the last 3 bytes count. White space
/// is what Unicode calls White_Space; an empty `before` is the start of the output.
BoundarySet boundaries_after(std::string_view before);

class StopAutomaton {
 public:
  static constexpr std::int32_t kRoot = 0;

  struct Node {
    std::int32_t fail = kRoot;   ///< longest proper suffix of the word that is a node
    std::int32_t prune = kRoot;  ///< longest proper suffix that can still become a match
    std::int32_t child = 0;      ///< the only child, 0 for none; unused with a row
    std::int16_t row = -1;       ///< index of the row of children, -1 for none
    std::int16_t depth = 0;      ///< length of the word in bytes
    std::uint8_t child_byte = 0;
    BoundarySet alive = 0;             ///< boundaries of the strings that go on below
    BoundarySet fail_boundaries = 0;   ///< that hold at the start of `fail` in this word
    BoundarySet prune_boundaries = 0;  ///< that hold at the start of `prune` in this word
    std::int8_t word = -1;             ///< index into `words_` when a stop string ends here
    std::int8_t inner = -1;            ///< shorter stop string that ends here, by its index
  };

  /// `strings` must have been checked: 1 to 64 valid UTF-8 texts of 1 to 1024 bytes, or none.
  explicit StopAutomaton(std::span<const StopString> strings);

  const Node& node(std::int32_t id) const { return nodes_[static_cast<std::size_t>(id)]; }

  /// The child for `byte`, or 0 (the root is nobody's child).
  std::int32_t child(const Node& node, unsigned char byte) const {
    if (node.row >= 0) return rows_[static_cast<std::size_t>(node.row)][byte];
    return node.child_byte == byte ? node.child : 0;
  }

  /// The stop string that is the node's whole word and whose boundary is in `holding`; -1 for
  /// none. Of equal texts, the first in the caller's list.
  int whole_word(const Node& node, BoundarySet holding) const;

  std::size_t memory_bytes() const;

 private:
  using Row = std::array<std::int32_t, 256>;
  using Word = std::array<std::int8_t, 3>;  ///< by boundary: index of the stop string or -1

  void insert(const StopString& string, std::int8_t index);
  std::int32_t add_child(std::int32_t parent, unsigned char byte);
  void link(std::span<const StopString> strings);
  void link_node(std::int32_t id, std::int32_t parent, std::string_view word);

  std::vector<Node> nodes_;
  std::vector<Row> rows_;
  std::vector<Word> words_;
};

}  // namespace sluice
