// All tokens that a text begins with, in one walk.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

/// Prefix tree over bytes. Its edges lie in one hash table, so that memory follows the number of
/// bytes added, and a step down is one look-up.
class PieceTrie {
 public:
  PieceTrie() : edges_(1024), ids_(1, -1) {}

  /// Adds a non-empty text; a text added again takes the new id.
  void add(std::string_view text, TokenId id) {
    std::uint32_t node = 0;
    for (const char c : text) {
      if (2 * ids_.size() >= edges_.size()) grow();
      Edge& edge = edges_[find_edge(edges_, node, c)];
      if (edge.target == 0) {
        edge = {key_of(node, c), static_cast<std::uint32_t>(ids_.size())};
        ids_.push_back(-1);
      }
      node = edge.target;
    }
    ids_[node] = id;
  }

  /// Calls visit(length, id) for each text that `text` begins with, shortest first.
  template <class Visit>
  void for_each_prefix(std::string_view text, Visit visit) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = edges_[find_edge(edges_, node, text[i])].target;
      if (node == 0) return;
      if (ids_[node] >= 0) visit(i + 1, ids_[node]);
    }
  }

 private:
  struct Edge {
    std::uint64_t key = 0;
    std::uint32_t target = 0;  ///< 0, the root, is no target: the slot is free
  };

  static std::uint64_t key_of(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<unsigned char>(c);
  }

  static std::size_t find_edge(const std::vector<Edge>& edges, std::uint32_t node, char c) {
    const std::uint64_t key = key_of(node, c);
    const std::size_t mask = edges.size() - 1;
    // Multiplicative hashing with 2^64 / golden ratio; the upper half is well mixed.
    std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 32) & mask;
    while (edges[at].target != 0 && edges[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Edge> larger(2 * edges_.size());
    for (const Edge& edge : edges_) {
      if (edge.target == 0) continue;
      larger[find_edge(larger, static_cast<std::uint32_t>(edge.key >> 8),
                       static_cast<char>(edge.key & 0xFF))] = edge;
    }
    edges_ = std::move(larger);
  }

  std::vector<Edge> edges_;
  std::vector<TokenId> ids_;  // by node; -1 where no text ends
};

}  // namespace sluice
