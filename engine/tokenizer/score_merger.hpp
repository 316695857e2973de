// The merge loop of SentencePiece BPE.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/merge_windows.hpp"
#include "engine/tokenizer/token_table.hpp"

namespace sluice {

/// Starts from the code points of a text and joins neighbours whose texts together are a token,
/// always those with the highest score and the leftmost among equals, until none are left. Short
/// texts, which are nearly all, are scanned; longer ones use a heap, in time n log n, and very long
/// ones windows with a heap each. All give the same result.
class ScoreMerger {
 public:
  /// `pieces` must outlive the merger and be complete when it is used; `scores` by token.
  ScoreMerger(const TokenTable& pieces, std::vector<float> scores)
      : pieces_(pieces), scores_(std::move(scores)) {}

  /// Memory that calls may share; belongs to one thread at a time.
  struct Work {
    std::vector<std::string_view> runs;  ///< result: what the text was joined to, in order

    struct Pair {
      float score = 0.0F;
      bool joins = false;
    };
    struct Node {
      std::size_t begin = 0;
      std::size_t size = 0;  ///< 0 once joined to its left neighbour
      std::int64_t previous = -1;
      std::int64_t next = -1;
    };
    struct Candidate {
      float score = 0.0F;
      std::int64_t left = 0;
      std::int64_t right = 0;
      std::size_t size = 0;  ///< of both together; tells whether the candidate is out of date
    };
    std::vector<Pair> pairs;
    std::vector<Node> nodes;
    std::vector<Candidate> heap;
  };

  void merge(std::string_view text, Work& work) const;
  void merge_by_scan(std::string_view text, Work& work) const;
  void merge_by_heap(std::string_view text, Work& work) const;
  /// `window` in symbols.
  void merge_by_windows(std::string_view text, Work& work, std::size_t window = kMergeWindow) const;

 private:
  Work::Pair look_up(std::string_view left, std::string_view right) const;
  void push_candidate(std::string_view text, std::int64_t left, std::int64_t right,
                      Work& work) const;

  const TokenTable& pieces_;
  std::vector<float> scores_;
};

}  // namespace sluice
