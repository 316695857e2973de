// The pre-tokenizer of a tokenizer.json: steps that cut text into pieces and may rewrite them.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.hpp"

namespace sluice {

/// What becomes of the matches of a pattern.
enum class SplitBehavior {
  kIsolated,            ///< each is a piece
  kRemoved,             ///< they are dropped
  kMergedWithPrevious,  ///< each ends the piece before it
  kMergedWithNext,      ///< each begins the piece behind it
  kContiguous,          ///< neighbouring ones are one piece
};

/// Pieces on their way through the steps; none is empty. Rewritten ones live in `texts`.
struct Pieces {
  std::vector<std::string_view> list;
  bool begins_the_text = false;   ///< the first one stands at the very start of what is encoded
  std::deque<std::string> texts;  ///< does not move its elements
};

/// One step. Immutable; safe to use from any thread.
class SplitterStep {
 public:
  virtual ~SplitterStep() = default;
  virtual void apply(Pieces& pieces) const = 0;
};

using SplitterStepPtr = std::unique_ptr<const SplitterStep>;

/// Cuts at the matches of a pattern; `invert` swaps matches and what lies between them. Bytes that
/// are not UTF-8 are pieces of their own.
SplitterStepPtr make_split_step(Regex pattern, SplitBehavior behavior, bool invert);

/// Puts a space before pieces that do not begin with one.
SplitterStepPtr make_leading_space_step();

/// Every byte becomes its stand-in (byte_alphabet.hpp).
SplitterStepPtr make_byte_alphabet_pieces_step();

enum class MarkPrefix { kNever, kFirst, kAlways };

/// Spaces become `mark`, and one is put in front: of no piece, of the one at the start of the
/// text, or of each, unless there is one already. With `cut` a mark begins a new piece.
SplitterStepPtr make_space_mark_step(std::string mark, MarkPrefix prefix, bool cut);

}  // namespace sluice
