#include "engine/tokenizer/score_merger.hpp"

#include <algorithm>

#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

constexpr std::size_t kLongestScan = 64;  // bytes

std::size_t symbol_size(std::string_view text, std::size_t at) {
  return std::max<std::size_t>(1, utf8_length(text, at));
}

/// Lowest score first among those that come later, rightmost among equals: the order of a heap
/// whose top is the best.
bool comes_later(const ScoreMerger::Work::Candidate& a, const ScoreMerger::Work::Candidate& b) {
  return a.score < b.score || (a.score == b.score && a.left > b.left);
}

}  // namespace

void ScoreMerger::merge(std::string_view text, Work& work) const {
  if (text.size() <= kLongestScan) {
    merge_by_scan(text, work);
  } else if (text.size() <= 2 * kMergeWindow) {
    merge_by_heap(text, work);
  } else {
    merge_by_windows(text, work);
  }
}

ScoreMerger::Work::Pair ScoreMerger::look_up(std::string_view left, std::string_view right) const {
  // They stand side by side in the text.
  const TokenId token = pieces_.find({left.data(), left.size() + right.size()});
  return token < 0 ? Work::Pair{} : Work::Pair{scores_[static_cast<std::size_t>(token)], true};
}

void ScoreMerger::merge_by_scan(std::string_view text, Work& work) const {
  auto& runs = work.runs;
  auto& pairs = work.pairs;  // pairs[i]: of runs i and i + 1
  runs.clear();
  pairs.clear();
  for (std::size_t at = 0; at < text.size();) {
    runs.push_back(text.substr(at, symbol_size(text, at)));
    at += runs.back().size();
    if (runs.size() > 1) pairs.push_back(look_up(runs[runs.size() - 2], runs.back()));
  }
  for (;;) {
    std::size_t best = pairs.size();
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const bool better = best == pairs.size() || pairs[i].score > pairs[best].score;
      if (pairs[i].joins && better) best = i;
    }
    if (best == pairs.size()) return;
    const auto offset = static_cast<std::ptrdiff_t>(best);
    runs[best] = {runs[best].data(), runs[best].size() + runs[best + 1].size()};
    runs.erase(runs.begin() + offset + 1);
    pairs.erase(pairs.begin() + offset);
    if (best > 0) pairs[best - 1] = look_up(runs[best - 1], runs[best]);
    if (best < pairs.size()) pairs[best] = look_up(runs[best], runs[best + 1]);
  }
}

void ScoreMerger::merge_by_heap(std::string_view text, Work& work) const {
  auto& nodes = work.nodes;
  auto& heap = work.heap;
  nodes.clear();
  heap.clear();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = symbol_size(text, at);
    const auto index = static_cast<std::int64_t>(nodes.size());
    nodes.push_back({at, size, index - 1, index + 1});
    at += size;
  }
  nodes.back().next = -1;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    push_candidate(text, static_cast<std::int64_t>(i) - 1, static_cast<std::int64_t>(i), work);
  }
  std::make_heap(heap.begin(), heap.end(), comes_later);
  const auto push = [&](std::int64_t left, std::int64_t right) {
    const std::size_t before = heap.size();
    push_candidate(text, left, right, work);
    if (heap.size() != before) std::push_heap(heap.begin(), heap.end(), comes_later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), comes_later);
    const Work::Candidate best = heap.back();
    heap.pop_back();
    Work::Node& left = nodes[static_cast<std::size_t>(best.left)];
    Work::Node& right = nodes[static_cast<std::size_t>(best.right)];
    if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
    left.size = best.size;
    right.size = 0;
    left.next = right.next;
    if (left.next >= 0) nodes[static_cast<std::size_t>(left.next)].previous = best.left;
    push(left.previous, best.left);
    push(best.left, left.next);
  }
  work.runs.clear();
  for (const Work::Node& node : nodes) {
    if (node.size != 0) work.runs.push_back(text.substr(node.begin, node.size));
  }
}

void ScoreMerger::merge_by_windows(std::string_view text, Work& work, std::size_t window) const {
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < text.size(); at += symbol_size(text, at)) begins.push_back(at);
  begins.push_back(text.size());
  const auto merge = [&](std::size_t begin, std::size_t end, std::vector<MergedRun>& runs) {
    const std::size_t first_byte = begins[begin];
    merge_by_heap(text.substr(first_byte, begins[end] - first_byte), work);
    runs.clear();
    for (std::size_t i = 0; i < work.nodes.size(); ++i) {
      if (work.nodes[i].size != 0) runs.push_back({begin + i, -1});
    }
  };
  std::vector<MergedRun> merged;
  merge_in_windows(begins.size() - 1, merge, merged, window);
  work.runs.clear();
  for (std::size_t i = 0; i < merged.size(); ++i) {
    const std::size_t end = i + 1 < merged.size() ? merged[i + 1].begin : begins.size() - 1;
    work.runs.push_back(
        text.substr(begins[merged[i].begin], begins[end] - begins[merged[i].begin]));
  }
}

void ScoreMerger::push_candidate(std::string_view text, std::int64_t left, std::int64_t right,
                                 Work& work) const {
  if (left < 0 || right < 0) return;
  const Work::Node& a = work.nodes[static_cast<std::size_t>(left)];
  const Work::Node& b = work.nodes[static_cast<std::size_t>(right)];
  const std::string_view joined = text.substr(a.begin, a.size + b.size);
  const Work::Pair pair = look_up(joined.substr(0, a.size), joined.substr(a.size));
  if (pair.joins) work.heap.push_back({pair.score, left, right, joined.size()});
}

}  // namespace sluice
