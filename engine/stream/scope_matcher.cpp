#include "engine/stream/scope_matcher.hpp"

#include <algorithm>
#include <utility>

#include "engine/stream/stop_regex.hpp"

namespace sluice {

ScopeMatcher::ScopeMatcher(std::span<const StopString> strings,
                           std::span<const StopPattern> patterns,
                           const std::optional<ReasoningMarkers>& reasoning)
    : has_markers_(reasoning.has_value()),
      content_(make_scope(strings, patterns, StopScope::kReasoning,
                          reasoning ? &reasoning->open : nullptr)),
      reasoning_(make_scope(reasoning ? strings : std::span<const StopString>(),
                            reasoning ? patterns : std::span<const StopPattern>(),
                            StopScope::kContent, reasoning ? &reasoning->close : nullptr)),
      in_reasoning_(reasoning && reasoning->starts_open) {
  check_stop_strings(strings);
  check_stop_patterns(patterns);
}

std::optional<StopMatch> ScopeMatcher::feed(std::string_view text) {
  while (!text.empty()) {
    bool ends = false;
    const std::size_t size = section_bytes(text, ends);
    if (const auto match = active().feed(text.substr(0, size))) return match;
    position_ += size;
    text.remove_prefix(size);
    if (ends) switch_scope();
  }
  return std::nullopt;
}

void ScopeMatcher::skip(std::string_view text) {
  while (!text.empty()) {
    bool ends = false;
    const std::size_t size = section_bytes(text, ends);
    active().skip(text.substr(0, size));
    position_ += size;
    text.remove_prefix(size);
    if (ends) switch_scope();
  }
}

void ScopeMatcher::on_special_token(std::string_view text) {
  if (active().marker && active().marker_text == text) switch_scope();
}

std::optional<StopMatch> ScopeMatcher::change(std::span<const StopString> strings,
                                              std::span<const StopPattern> patterns,
                                              std::string_view before, std::string_view held) {
  check_stop_strings(strings);
  check_stop_patterns(patterns);
  Scope content = make_scope(strings, patterns, StopScope::kReasoning, nullptr);
  Scope reasoning = make_scope(has_markers_ ? strings : std::span<const StopString>(),
                               has_markers_ ? patterns : std::span<const StopPattern>(),
                               StopScope::kContent, nullptr);
  // The markers go on as they are: what has been seen of one still counts.
  content_.replace_stops(std::move(content));
  reasoning_.replace_stops(std::move(reasoning));

  // What is held back lies in the section, and so does a part of `before`, perhaps.
  const std::uint64_t begin = position_ - held.size();
  before.remove_prefix(before.size() -
                       std::min<std::uint64_t>(before.size(), begin - section_start_));
  active().restart(begin - before.size());
  active().skip(before);
  return active().feed(held);
}

// -- one scope ------------------------------------------------------------------------------------

ScopeMatcher::Scope ScopeMatcher::make_scope(std::span<const StopString> strings,
                                             std::span<const StopPattern> patterns, StopScope other,
                                             const std::string* marker) {
  std::vector<StopString> chosen_strings;
  std::vector<std::size_t> string_index;
  for (std::size_t i = 0; i < strings.size() && i <= kMaxStopStrings; ++i) {
    if (strings[i].scope == other) continue;
    chosen_strings.push_back(strings[i]);
    string_index.push_back(i);
  }
  std::vector<StopPattern> chosen_patterns;
  std::vector<std::size_t> pattern_index;
  for (std::size_t i = 0; i < patterns.size() && i <= kMaxStopPatterns; ++i) {
    if (patterns[i].scope == other) continue;
    chosen_patterns.push_back(patterns[i]);
    pattern_index.push_back(i);
  }
  Scope scope{StopMatcher(chosen_strings),
              std::move(string_index),
              PatternMatcher(chosen_patterns),
              std::move(pattern_index),
              std::nullopt,
              {}};
  if (marker != nullptr) {
    const StopString as_string{*marker, StopBoundary::kAnywhere, StopScope::kBoth, true};
    scope.marker.emplace(std::span(&as_string, 1));
    scope.marker_text = *marker;
  }
  return scope;
}

void ScopeMatcher::Scope::replace_stops(Scope other) {
  strings = std::move(other.strings);
  string_index = std::move(other.string_index);
  patterns = std::move(other.patterns);
  pattern_index = std::move(other.pattern_index);
}

void ScopeMatcher::Scope::restart(std::uint64_t offset) {
  strings.restart(offset);
  patterns.restart(offset);
}

void ScopeMatcher::Scope::skip(std::string_view text) {
  strings.skip(text);
  patterns.skip(text);
}

std::optional<StopMatch> ScopeMatcher::Scope::feed(std::string_view text) {
  auto by_string = strings.feed(text);
  if (by_string) by_string->index = string_index[by_string->index];
  auto by_pattern = patterns.feed(text);
  if (!by_pattern) return by_string;
  by_pattern->index = pattern_index[by_pattern->index];
  by_pattern->pattern = true;
  const bool earlier = !by_string || by_pattern->end < by_string->end ||
                       (by_pattern->end == by_string->end && by_pattern->begin < by_string->begin);
  return earlier ? by_pattern : by_string;
}

// -- sections -------------------------------------------------------------------------------------

std::size_t ScopeMatcher::section_bytes(std::string_view text, bool& ends) {
  ends = false;
  if (!active().marker) return text.size();
  const auto match = active().marker->feed(text);
  if (!match) return text.size();
  ends = true;
  return static_cast<std::size_t>(match->end - position_);
}

void ScopeMatcher::switch_scope() {
  in_reasoning_ = !in_reasoning_;
  section_start_ = position_;
  active().restart(position_);
  active().marker->restart(position_);
}

}  // namespace sluice
