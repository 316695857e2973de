#include "engine/tokenizer/byte_pair_merger.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

void BytePairMerger::merge_by_scan(std::vector<SymbolId>& symbols) {
  if (symbols.size() < 2) return;
  pairs_.clear();
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    pairs_.push_back(merges_.find(symbols[i], symbols[i + 1]));
  }
  while (!pairs_.empty()) {
    const auto best = std::min_element(
        pairs_.begin(), pairs_.end(),
        [](const MergeTable::Merge& a, const MergeTable::Merge& b) { return a.rank < b.rank; });
    if (best->rank == MergeTable::kNoRank) return;
    const auto at = best - pairs_.begin();
    const auto index = static_cast<std::size_t>(at);
    symbols[index] = best->result;
    symbols.erase(symbols.begin() + at + 1);
    pairs_.erase(pairs_.begin() + at);
    if (index > 0) pairs_[index - 1] = merges_.find(symbols[index - 1], symbols[index]);
    if (index < pairs_.size()) pairs_[index] = merges_.find(symbols[index], symbols[index + 1]);
  }
}

void BytePairMerger::merge_by_heap(std::vector<SymbolId>& symbols) {
  run_heap(symbols);
  symbols.clear();
  for (const Node& node : nodes_) {
    if (node.symbol >= 0) symbols.push_back(node.symbol);
  }
}

void BytePairMerger::merge_by_windows(std::vector<SymbolId>& symbols, std::size_t window) {
  const auto merge = [&](std::size_t begin, std::size_t end, std::vector<MergedRun>& runs) {
    run_heap(std::span(symbols).subspan(begin, end - begin));
    runs.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].symbol >= 0) runs.push_back({begin + i, nodes_[i].symbol});
    }
  };
  merge_in_windows(symbols.size(), merge, runs_, window);
  symbols.clear();
  for (const MergedRun& run : runs_) symbols.push_back(run.symbol);
}

void BytePairMerger::run_heap(std::span<const SymbolId> symbols) {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
  };
  const auto count = static_cast<std::int64_t>(symbols.size());
  nodes_.clear();
  heap_.clear();
  for (std::int64_t i = 0; i < count; ++i) {
    nodes_.push_back({symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  for (std::int64_t i = 0; i + 1 < count; ++i) push_candidate(i);
  std::make_heap(heap_.begin(), heap_.end(), later);

  const auto push = [&](std::int64_t left) {
    const std::size_t before = heap_.size();
    push_candidate(left);
    if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Node& left = nodes_[static_cast<std::size_t>(best.left)];
    if (left.symbol != best.left_symbol || left.next < 0) continue;
    Node& right = nodes_[static_cast<std::size_t>(left.next)];
    if (right.symbol != best.right_symbol) continue;
    left.symbol = best.result;
    right.symbol = -1;
    left.next = right.next;
    if (left.next >= 0) nodes_[static_cast<std::size_t>(left.next)].previous = best.left;
    if (left.previous >= 0) push(left.previous);
    push(best.left);
  }
}

void BytePairMerger::push_candidate(std::int64_t left) {
  const Node& node = nodes_[static_cast<std::size_t>(left)];
  if (node.next < 0) return;
  const SymbolId right_symbol = nodes_[static_cast<std::size_t>(node.next)].symbol;
  const MergeTable::Merge merge = merges_.find(node.symbol, right_symbol);
  if (merge.rank == MergeTable::kNoRank) return;
  heap_.push_back({merge.rank, node.symbol, right_symbol, merge.result, left});
}

}  // namespace sluice
