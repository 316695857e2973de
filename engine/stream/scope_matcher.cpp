#include "engine/stream/scope_matcher.hpp"

#include <algorithm>
#include <utility>

namespace sluice {

ScopeMatcher::ScopeMatcher(std::span<const StopString> strings,
                           const std::optional<ReasoningMarkers>& reasoning)
    : has_markers_(reasoning.has_value()),
      content_(make_scope(strings, StopScope::kReasoning, reasoning ? &reasoning->open : nullptr)),
      reasoning_(make_scope(reasoning ? strings : std::span<const StopString>(),
                            StopScope::kContent, reasoning ? &reasoning->close : nullptr)),
      in_reasoning_(reasoning && reasoning->starts_open) {
  check_stop_strings(strings);
}

std::optional<StopMatch> ScopeMatcher::feed(std::string_view text) {
  while (!text.empty()) {
    bool ends = false;
    const std::size_t size = section_bytes(text, ends);
    if (auto match = active().matcher.feed(text.substr(0, size))) {
      match->index = active().index[match->index];
      return match;
    }
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
    active().matcher.skip(text.substr(0, size));
    position_ += size;
    text.remove_prefix(size);
    if (ends) switch_scope();
  }
}

void ScopeMatcher::on_special_token(std::string_view text) {
  if (active().marker && active().marker_text == text) switch_scope();
}

std::optional<StopMatch> ScopeMatcher::change(std::span<const StopString> strings,
                                              std::string_view before, std::string_view held) {
  check_stop_strings(strings);
  Scope content = make_scope(strings, StopScope::kReasoning, nullptr);
  Scope reasoning = make_scope(has_markers_ ? strings : std::span<const StopString>(),
                               StopScope::kContent, nullptr);
  // The markers go on as they are: what has been seen of one still counts.
  content_.replace(std::move(content));
  reasoning_.replace(std::move(reasoning));

  // What is held back lies in the section, and so does a part of `before`, perhaps.
  const std::uint64_t begin = position_ - held.size();
  before.remove_prefix(before.size() -
                       std::min<std::uint64_t>(before.size(), begin - section_start_));
  active().matcher.restart(begin - before.size());
  active().matcher.skip(before);
  auto match = active().matcher.feed(held);
  if (match) match->index = active().index[match->index];
  return match;
}

void ScopeMatcher::Scope::replace(Scope other) {
  matcher = std::move(other.matcher);
  index = std::move(other.index);
}

ScopeMatcher::Scope ScopeMatcher::make_scope(std::span<const StopString> strings, StopScope other,
                                             const std::string* marker) {
  std::vector<StopString> chosen;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < strings.size() && i <= kMaxStopStrings; ++i) {
    if (strings[i].scope == other) continue;
    chosen.push_back(strings[i]);
    index.push_back(i);
  }
  Scope scope{StopMatcher(chosen), std::move(index), std::nullopt, {}};
  if (marker != nullptr) {
    const StopString as_string{*marker, StopBoundary::kAnywhere, StopScope::kBoth, true};
    scope.marker.emplace(std::span(&as_string, 1));
    scope.marker_text = *marker;
  }
  return scope;
}

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
  active().matcher.restart(position_);
  active().marker->restart(position_);
}

}  // namespace sluice
