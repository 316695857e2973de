// Regular expressions as stops: what may be said, and the automaton they become.
//
//   x             the character itself; . any character but a line feed
//   \n \t \r \f \v \0   \x41   \u00E9   \u{1F600}       characters by name
//   \. \* \\ ...  punctuation that would mean something else
//   [a-z_] [^"]   classes; \d \w \s and \D \W \S, of ASCII, alone and in classes
//   (ab|c) (?:ab) groups and choices
//   * + ? {3} {2,} {2,5}   repetition, of 1000 at most; a ? behind it (lazy) changes nothing,
//                 since the match that ends first counts anyway
//   ^             the start of the output or of a line
//
// Everything else that some regular expressions know ($ \b, back references, look-around, flags)
// is refused with a sentence, as are expressions that match the empty text, that can never match,
// or whose automaton is too large. Characters are Unicode code points.
//
// The automaton is Thompson's: one state for each character, class and choice, so that its size
// is that of the expression (with its repetitions written out). Worked example, "ab*" backwards
// from its end:
//   0 accept    1 split -> 2, 0    2 chars "b" -> 1    3 chars "a" -> 1    start: 3
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/stream/code_point_set.hpp"
#include "engine/stream/request.hpp"

namespace sluice {

inline constexpr std::size_t kMaxStopPatterns = 64;
inline constexpr std::size_t kMaxStopPatternBytes = 1024;   ///< of the expression
inline constexpr std::size_t kMaxStopPatternMatch = 1024;   ///< bytes of the text it matches
inline constexpr std::size_t kMaxStopPatternStates = 2000;  ///< of all patterns of a stream

/// The automaton of some patterns, side by side.
struct StopProgram {
  enum class Op : std::uint8_t {
    kChars,      ///< takes a character of `sets[operand]`, goes to `next`
    kSplit,      ///< goes to `next` and to `operand`
    kLineStart,  ///< goes to `next` at the start of the output or of a line
    kAccept,     ///< pattern `operand` has matched
  };
  struct State {
    Op op = Op::kAccept;
    std::int32_t next = 0;
    std::int32_t operand = 0;
  };
  static constexpr std::size_t kNever = 1U << 20U;

  std::vector<State> states;
  std::vector<CodePointSet> sets;
  std::vector<std::int32_t> starts;  ///< by pattern
  /// By state: bytes of the shortest text that leads from it to an accept state; kNever or more
  /// if none does. [1]: when the state is entered at the start of a line, [0]: elsewhere.
  std::vector<std::array<std::size_t, 2>> needs;
};

/// Throws Error(kInvalidArgument) with a sentence that names the pattern and the place.
StopProgram compile_stop_patterns(std::span<const StopPattern> patterns);

/// Throws as compile_stop_patterns.
void check_stop_patterns(std::span<const StopPattern> patterns);

}  // namespace sluice
