// Merging a long text in windows, with the result of merging it as a whole.
//
// Why that is possible: a merge loop always takes the best pair, the leftmost among equals. As
// long as no merge crosses the border between two neighbouring runs, what happens inside of them
// does not depend on anything else. So if merging the two by themselves leaves the border between
// them, merging them within a longer text does so as well, and a sequence of runs is the result
// for a text exactly when each pair of neighbours is the result for the text of those two. Within
// a window that holds by itself; where two windows meet it is tried out, and where it fails a
// longer window is begun further left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/tokenizer/merge_table.hpp"

namespace sluice {

/// A run of symbols that were merged: it reaches to the begin of the next one.
struct MergedRun {
  std::size_t begin = 0;
  SymbolId symbol = -1;  ///< what they were merged to, where that has a number
};

/// Symbols in a window. Small enough for its working memory to stay in the fastest cache, large
/// against what is merged twice where windows meet.
inline constexpr std::size_t kMergeWindow = 1024;

/// Runs that are given up where two windows do not meet, at first.
inline constexpr std::size_t kFirstStepsBack = 8;

/// Merges `count` symbols: merge(begin, end, runs) replaces `runs` by the result for a range of
/// them. Leaves all runs in `out`. Time: proportional to `count` for any text that does not make
/// borders fail again and again, and at worst a few times what merging the whole takes.
template <class Merge>
void merge_in_windows(std::size_t count, Merge merge, std::vector<MergedRun>& out,
                      std::size_t window = kMergeWindow) {
  out.clear();
  std::vector<MergedRun> part;
  std::vector<MergedRun> pair;
  std::size_t width = window;
  std::size_t steps_back = kFirstStepsBack;
  std::size_t failed_end = 0;  // of the last window that did not meet what is before it
  for (std::size_t begin = 0; begin < count;) {
    const std::size_t end = std::min(count, begin + width);
    merge(begin, end, part);
    bool meets = true;
    if (!out.empty()) {
      merge(out.back().begin, part.size() > 1 ? part[1].begin : end, pair);
      meets = pair.size() == 2 && pair[1].begin == begin;
    }
    if (!meets) {
      const std::size_t back = std::min(steps_back, out.size());
      begin = out[out.size() - back].begin;
      out.resize(out.size() - back);
      // Both grow until a window lies behind all that failed, so that this can't go on for ever.
      failed_end = end;
      width = std::max(2 * width, 2 * (end - begin));
      steps_back *= 2;
      continue;
    }
    if (end == count) {
      out.insert(out.end(), part.begin(), part.end());
      return;
    }
    // What stands near the end of the window may change with what follows.
    const std::size_t sure = end - width / 8;
    while (part.size() > 1 && part.back().begin > sure) part.pop_back();
    if (part.size() == 1) {
      width *= 2;
      continue;
    }
    begin = part.back().begin;
    part.pop_back();
    out.insert(out.end(), part.begin(), part.end());
    if (begin > failed_end) {
      width = window;
      steps_back = kFirstStepsBack;
    }
  }
}

}  // namespace sluice
