// Stop strings and patterns by scope: one matcher for the model's reasoning, one for everything
// else.
//
// Reasoning is the text between two markers, e.g. <think> and </think>. The output is cut into
// sections at the end of each marker; the opening marker belongs to the content before it, the
// closing marker to the reasoning. Every section is a text of its own for the stop strings: a
// match never reaches over the border, and boundary conditions hold at the section's start.
// A stop string that is complete at the same byte as a marker, or earlier, wins over it.
// Without markers everything is content, and stop strings of scope kReasoning never match.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stream/pattern_matcher.hpp"
#include "engine/stream/reasoning_markers.hpp"
#include "engine/stream/request.hpp"
#include "engine/stream/stop_matcher.hpp"

namespace sluice {

class ScopeMatcher {
 public:
  /// Throws Error(kInvalidArgument): see StopMatcher, for the markers as well, and PatternMatcher.
  ScopeMatcher(std::span<const StopString> strings, std::span<const StopPattern> patterns,
               const std::optional<ReasoningMarkers>& reasoning);

  /// Feeds text that may contain a match; as StopMatcher::feed. Of a string and a pattern that
  /// match the same text, the string counts.
  std::optional<StopMatch> feed(std::string_view text);
  /// Text in which no match may begin or end (before the minimum length); markers count.
  void skip(std::string_view text);
  /// A special token, which adds no text: it may be a marker.
  void on_special_token(std::string_view text);

  /// Other stops from now on. `held` is the text fed last that is not shown: it is searched
  /// again, and a match in it is returned. `before` is the text before `held`, of which the last 3
  /// bytes count. Throws as the constructor, and nothing has changed then.
  std::optional<StopMatch> change(std::span<const StopString> strings,
                                  std::span<const StopPattern> patterns, std::string_view before,
                                  std::string_view held);

  std::uint64_t safe_end() const {
    return std::min(active().strings.safe_end(), active().patterns.safe_end());
  }
  bool in_reasoning() const { return in_reasoning_; }

 private:
  struct Scope {
    StopMatcher strings;
    std::vector<std::size_t> string_index;  ///< of the matcher's strings in the caller's list
    PatternMatcher patterns;
    std::vector<std::size_t> pattern_index;
    std::optional<StopMatcher> marker;  ///< what ends a section of this scope
    std::string marker_text;

    /// Takes the stops of another scope; the marker stays.
    void replace_stops(Scope other);
    void restart(std::uint64_t offset);
    void skip(std::string_view text);
    std::optional<StopMatch> feed(std::string_view text);
  };

  static Scope make_scope(std::span<const StopString> strings,
                          std::span<const StopPattern> patterns, StopScope other,
                          const std::string* marker);
  Scope& active() { return in_reasoning_ ? reasoning_ : content_; }
  const Scope& active() const { return in_reasoning_ ? reasoning_ : content_; }
  /// Bytes of `text` up to the end of the section, and whether the section ends there.
  std::size_t section_bytes(std::string_view text, bool& ends);
  void switch_scope();

  bool has_markers_;
  Scope content_;
  Scope reasoning_;
  bool in_reasoning_ = false;
  std::uint64_t position_ = 0;
  std::uint64_t section_start_ = 0;
};

}  // namespace sluice
