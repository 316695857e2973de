// Ways to merge faster, against merging the whole text.
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/tokenizer/byte_pair_merger.hpp"
#include "engine/tokenizer/mark_cutter.hpp"
#include "engine/tokenizer/score_merger.hpp"

namespace sluice {
namespace {

using Random = std::mt19937;

std::string random_text(Random& random, std::string_view letters, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += letters[random() % letters.size()];
  return text;
}

/// Merges of random pairs of symbols that exist, as training would find them.
MergeTable random_merges(Random& random, SymbolId letters, int count) {
  MergeTable merges(static_cast<std::size_t>(count));
  SymbolId next = letters;
  for (int rank = 0; rank < count; ++rank) {
    const auto left = static_cast<SymbolId>(random() % static_cast<unsigned>(next));
    const auto right = static_cast<SymbolId>(random() % static_cast<unsigned>(next));
    if (merges.find(left, right).rank == MergeTable::kNoRank) {
      merges.add(left, right, {rank, next++});
    }
  }
  return merges;
}

TEST_CASE("merging in windows equals merging at once for ranks") {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const auto letters = static_cast<SymbolId>(1 + random() % 4);
    const MergeTable merges = random_merges(random, letters, 1 + static_cast<int>(random() % 60));
    std::vector<SymbolId> whole;
    for (std::size_t i = 0; i < 40 + random() % 400; ++i) {
      whole.push_back(static_cast<SymbolId>(random() % static_cast<unsigned>(letters)));
    }
    std::vector<SymbolId> windows = whole;
    BytePairMerger merger(merges);
    merger.merge_by_heap(whole);
    merger.merge_by_windows(windows, 8 + random() % 32);
    CHECK(windows == whole);
  }
}

/// A vocabulary of random texts over a few letters, with a score each.
struct Pieces {
  std::vector<std::string> texts;
  TokenTable table{64};
  std::vector<float> scores;

  Pieces(Random& random, std::string_view letters) {
    std::set<std::string> distinct;
    for (int i = 0; i < 60; ++i) distinct.insert(random_text(random, letters, 1 + random() % 5));
    texts.assign(distinct.begin(), distinct.end());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      table.set(texts[i], static_cast<TokenId>(i));
      scores.push_back(-static_cast<float>(random() % 12));  // ties are common
    }
  }
};

TEST_CASE("merging by scan and by heap and in windows are the same for scores") {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const Pieces pieces(random, round % 3 == 0 ? "a" : "ab\xC3\xA9");
    const ScoreMerger merger(pieces.table, pieces.scores);
    const std::string text = random_text(random, "aab\xC3\xA9", 1 + random() % 300);
    ScoreMerger::Work scan;
    ScoreMerger::Work heap;
    ScoreMerger::Work windows;
    merger.merge_by_scan(text, scan);
    merger.merge_by_heap(text, heap);
    merger.merge_by_windows(text, windows, 8 + random() % 32);
    CHECK(heap.runs == scan.runs);
    CHECK(windows.runs == scan.runs);
  }
}

TEST_CASE("words cut before spaces merge as the whole text does") {
  Random random(3);
  std::size_t cuts = 0;
  for (int round = 0; round < 400; ++round) {
    const Pieces pieces(random, round % 2 == 0 ? "ab " : "abc      ");
    const ScoreMerger merger(pieces.table, pieces.scores);
    MarkCutter cutter(" ");
    for (const std::string& text : pieces.texts) cutter.never_cut_inside(text);
    // A letter that no token joins to a space makes cuts likely.
    const std::string text = random_text(random, "ab xyz  ", 1 + random() % 60);
    ScoreMerger::Work whole;
    merger.merge_by_scan(text, whole);
    std::vector<std::string_view> parts;
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view part = rest.substr(0, cutter.first_part(rest));
      ScoreMerger::Work work;
      merger.merge_by_scan(part, work);
      parts.insert(parts.end(), work.runs.begin(), work.runs.end());
      rest.remove_prefix(part.size());
      ++cuts;
    }
    CHECK(parts == whole.runs);
  }
  CHECK(cuts > 1000);
}

}  // namespace
}  // namespace sluice
