// Finds stop patterns in streamed text and says how much text is safe to show.
//
// A candidate is a part of the text, of 1 to 1024 bytes, that a pattern matches as a whole. As with
// stop strings, the candidate that ends first wins; of those that end at the same byte, the one
// that begins first; of those, the first pattern in the list. So "\d+" matches the first digit,
// and "a.*b" everything from the first "a" of the line to the first "b" after it.
//
// Held back is exactly the longest suffix of the text that can still become a candidate. Worked
// example with "\n+Q\d": after "Hi\n\n" the two line feeds are held; after "Q" all three bytes;
// after "x" nothing.
//
// All states of the automaton are followed at once, each with the set of places where the
// candidates began that have come to it. A character costs time in proportion to the size of the
// automaton, whatever the text: there is no going back. A character that begins no candidate,
// while there is none, costs one look into a table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "engine/stream/request.hpp"
#include "engine/stream/stop_matcher.hpp"

namespace sluice {

class PatternMatcher {
 public:
  /// Throws Error(kInvalidArgument); see compile_stop_patterns. `longest_match` (1 to 1024 bytes)
  /// is for tests.
  explicit PatternMatcher(std::span<const StopPattern> patterns, std::size_t longest_match = 1024);
  ~PatternMatcher();
  PatternMatcher(PatternMatcher&&) noexcept;
  PatternMatcher& operator=(PatternMatcher&&) noexcept;

  /// Feeds whole code points. As StopMatcher::feed; StopMatch::index is that of the pattern.
  std::optional<StopMatch> feed(std::string_view text);

  /// As in StopMatcher.
  std::uint64_t safe_end() const;
  void skip(std::string_view text);
  void restart(std::uint64_t offset);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
