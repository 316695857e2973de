// Finds stop strings in streamed text and says how much text is safe to show.
//
// An Aho-Corasick automaton over bytes: the cost of a byte does not depend on the number of
// strings. After each piece of text the matcher holds back exactly the longest suffix that is
// still a proper prefix of some stop string whose boundary condition holds there; nothing when
// there is none.
//
// Worked example with {"\nHuman:"}: feeding "Hi\nHu" shows "Hi" and holds "\nHu"; feeding "mble"
// shows "\nHumble"; feeding "\nHuman: x" matches: nothing more is shown, the rest is dropped.
//
// Which match counts, exactly: a candidate is a place where the text equals a stop string and
// the string's boundary condition holds at its first byte. The candidate that ends first wins;
// among those that end at the same byte, the one that begins first (the longest); among equal
// texts, the first in the list. So
//   - of {"ab", "abc"} the text "abc" gives "ab": it is complete before "abc" can be;
//   - of {"bc", "abc"} the text "abc" gives "abc", but "bc" when the boundary rejects "abc".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "engine/stream/request.hpp"

namespace sluice {

inline constexpr std::size_t kMaxStopStrings = 64;
inline constexpr std::size_t kMaxStopStringBytes = 1024;

struct StopMatch {
  std::size_t index = 0;    ///< which of the stop strings
  std::uint64_t begin = 0;  ///< byte offsets in the whole text fed so far
  std::uint64_t end = 0;
  bool pattern = false;  ///< `index` is among the stop patterns (pattern_matcher.hpp)
};

class StopMatcher {
 public:
  /// Throws Error(kInvalidArgument): empty or too long string, too many, invalid UTF-8.
  explicit StopMatcher(std::span<const StopString> strings);
  ~StopMatcher();
  StopMatcher(StopMatcher&&) noexcept;
  StopMatcher& operator=(StopMatcher&&) noexcept;

  /// Feeds text. Returns the match that ends first (of those that end at the same byte, the one
  /// that begins first) or nothing. After a match feed no more. Does not allocate.
  std::optional<StopMatch> feed(std::string_view text);

  /// Text before this offset can be shown: no match can begin in it any more. After a match, the
  /// offset where it begins.
  std::uint64_t safe_end() const;

  /// Forgets partial matches: text fed so far will not be part of a match (used at the minimum
  /// length), but still counts for boundary conditions.
  void forget();

  /// Text that counts for offsets and boundary conditions but is no part of a match.
  void skip(std::string_view text);

  /// Begins a new text whose first byte has this offset: everything before is forgotten, and the
  /// boundary conditions hold at its start. Also after a match.
  void restart(std::uint64_t offset);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Throws Error(kInvalidArgument) when `strings` can't be matched: more than 64, an empty one,
/// one longer than 1024 bytes, or invalid UTF-8; says which one.
void check_stop_strings(std::span<const StopString> strings);

}  // namespace sluice
