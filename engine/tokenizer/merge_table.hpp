// Ranks of byte-pair merges, looked up by the pair.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// A symbol of BPE: a token id, or a number past the vocabulary for a text that only occurs on
/// the way to longer ones.
using SymbolId = std::int32_t;

/// Hash table with open addressing, half full at most; a lookup touches one cache line mostly.
class MergeTable {
 public:
  static constexpr std::int32_t kNoRank = INT32_MAX;

  struct Merge {
    std::int32_t rank = kNoRank;  ///< lower merges first; kNoRank when the pair does not merge
    SymbolId result = -1;
  };

  explicit MergeTable(std::size_t num_merges)
      : slots_(std::bit_ceil(2 * num_merges + 2)), mask_(slots_.size() - 1) {}

  /// Keeps the first rank of a pair that comes twice. At most num_merges pairs.
  void add(SymbolId left, SymbolId right, Merge merge) {
    Slot& slot = slots_[find_slot(left, right)];
    if (slot.merge.rank == kNoRank) slot = {left, right, merge};
  }

  Merge find(SymbolId left, SymbolId right) const { return slots_[find_slot(left, right)].merge; }

 private:
  struct Slot {
    SymbolId left = -1;
    SymbolId right = -1;
    Merge merge;
  };

  /// The pair's slot, or the empty one where it would go.
  std::size_t find_slot(SymbolId left, SymbolId right) const {
    const std::uint64_t pair = static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                               static_cast<std::uint32_t>(right);
    // Multiplicative hashing with 2^64 / golden ratio; the upper half is well mixed.
    std::size_t at = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15ULL) >> 32) & mask_;
    while (slots_[at].merge.rank != kNoRank &&
           (slots_[at].left != left || slots_[at].right != right)) {
      at = (at + 1) & mask_;
    }
    return at;
  }

  std::vector<Slot> slots_;
  std::size_t mask_;
};

}  // namespace sluice
