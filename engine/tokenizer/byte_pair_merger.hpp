// The merge loop of byte-pair encoding.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/tokenizer/merge_table.hpp"
#include "engine/tokenizer/merge_windows.hpp"

namespace sluice {

/// Merges neighbouring symbols in place, always the pair with the lowest rank and the leftmost
/// among equals, until no pair in the table is left. Short pieces, which are nearly all, are
/// scanned; longer ones use a heap, in time n log n, and very long ones windows with a heap each.
/// All give the same result. Keeps its working memory between calls; belongs to one thread at a
/// time.
class BytePairMerger {
 public:
  explicit BytePairMerger(const MergeTable& merges) : merges_(merges) {}

  void merge(std::vector<SymbolId>& symbols) {
    if (symbols.size() <= kLongestScan) {
      merge_by_scan(symbols);
    } else if (symbols.size() <= 2 * kMergeWindow) {
      merge_by_heap(symbols);
    } else {
      merge_by_windows(symbols);
    }
  }

  void merge_by_scan(std::vector<SymbolId>& symbols);
  void merge_by_heap(std::vector<SymbolId>& symbols);
  void merge_by_windows(std::vector<SymbolId>& symbols, std::size_t window = kMergeWindow);

 private:
  static constexpr std::size_t kLongestScan = 48;

  struct Node {
    SymbolId symbol = -1;  ///< -1 once merged into its left neighbour
    std::int64_t previous = -1;
    std::int64_t next = -1;
  };
  /// A pair as it was when found; out of date when a symbol has changed since.
  struct Candidate {
    std::int32_t rank = 0;
    SymbolId left_symbol = -1;
    SymbolId right_symbol = -1;
    SymbolId result = -1;
    std::int64_t left = 0;
  };
  /// Merges all of `symbols`; nodes_ hold the result, those that were merged away at -1.
  void run_heap(std::span<const SymbolId> symbols);
  void push_candidate(std::int64_t left);

  const MergeTable& merges_;
  std::vector<MergeTable::Merge> pairs_;  // scan: merge of each symbol with its right neighbour
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
  std::vector<MergedRun> runs_;
};

}  // namespace sluice
