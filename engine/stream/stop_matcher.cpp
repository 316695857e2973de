#include "engine/stream/stop_matcher.hpp"

#include <algorithm>
#include <string>

#include "engine/base/error.hpp"
#include "engine/stream/stop_automaton.hpp"
#include "engine/stream/utf8_accumulator.hpp"

namespace sluice {

struct StopMatcher::Impl {
  explicit Impl(std::span<const StopString> strings) : automaton(strings), empty(strings.empty()) {
    lengths.reserve(strings.size());
    for (const StopString& string : strings) lengths.push_back(string.text.size());
  }

  /// Boundaries that hold before text[i].
  BoundarySet boundaries_at(std::string_view text, std::size_t i) const;
  /// Moves past `text`: offsets and the bytes that decide the next boundary.
  void advance(std::string_view text);

  StopAutomaton automaton;
  std::vector<std::size_t> lengths;  ///< of the stop strings, bytes
  bool empty;
  std::int32_t node = StopAutomaton::kRoot;
  BoundarySet holding = 0;     ///< boundaries that hold at the start of the node's word
  std::uint64_t position = 0;  ///< bytes fed so far
  std::uint64_t held = 0;      ///< bytes before `position` that are not safe to show
  /// The last bytes fed, for boundary conditions; none at the start of a text.
  char tail[3] = {};
  std::size_t tail_size = 0;
};

StopMatcher::StopMatcher(std::span<const StopString> strings) {
  check_stop_strings(strings);
  impl_ = std::make_unique<Impl>(strings);
}

StopMatcher::~StopMatcher() = default;
StopMatcher::StopMatcher(StopMatcher&&) noexcept = default;
StopMatcher& StopMatcher::operator=(StopMatcher&&) noexcept = default;

std::optional<StopMatch> StopMatcher::feed(std::string_view text) {
  Impl& self = *impl_;
  if (self.empty) {
    self.position += text.size();
    return std::nullopt;
  }
  const StopAutomaton& automaton = self.automaton;
  std::int32_t id = self.node;
  BoundarySet holding = self.holding;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    std::int32_t next = automaton.child(automaton.node(id), byte);
    while (next == 0 && id != StopAutomaton::kRoot) {
      holding = automaton.node(id).fail_boundaries;
      id = automaton.node(id).fail;
      next = automaton.child(automaton.node(id), byte);
    }
    if (next == 0) continue;
    if (id == StopAutomaton::kRoot) holding = self.boundaries_at(text, i);
    id = next;
    const StopAutomaton::Node& node = automaton.node(id);
    const int whole = automaton.whole_word(node, holding);
    const int index = whole >= 0 ? whole : node.inner;
    if (index >= 0) {
      self.advance(text.substr(0, i + 1));
      self.node = StopAutomaton::kRoot;
      self.held = self.lengths[static_cast<std::size_t>(index)];
      return StopMatch{static_cast<std::size_t>(index), self.position - self.held, self.position};
    }
    if ((node.alive & holding) == 0) {
      holding = node.prune_boundaries;
      id = node.prune;
    }
  }
  self.advance(text);
  self.node = id;
  self.holding = holding;
  self.held = static_cast<std::uint64_t>(automaton.node(id).depth);
  return std::nullopt;
}

std::uint64_t StopMatcher::safe_end() const {
  return impl_->position - impl_->held;
}

void StopMatcher::forget() {
  impl_->node = StopAutomaton::kRoot;
  impl_->held = 0;
}

void StopMatcher::skip(std::string_view text) {
  forget();
  impl_->advance(text);
}

void StopMatcher::restart(std::uint64_t offset) {
  forget();
  impl_->position = offset;
  impl_->tail_size = 0;
}

BoundarySet StopMatcher::Impl::boundaries_at(std::string_view text, std::size_t i) const {
  if (i >= sizeof(tail)) return boundaries_after(text.substr(i - sizeof(tail), sizeof(tail)));
  char before[2 * sizeof(tail)];
  std::copy_n(tail, tail_size, before);
  text.copy(before + tail_size, i);
  return boundaries_after({before, tail_size + i});
}

void StopMatcher::Impl::advance(std::string_view text) {
  position += text.size();
  if (text.size() >= sizeof(tail)) {
    tail_size = text.copy(tail, sizeof(tail), text.size() - sizeof(tail));
    return;
  }
  const std::size_t kept = std::min(tail_size, sizeof(tail) - text.size());
  std::copy(tail + tail_size - kept, tail + tail_size, tail);
  text.copy(tail + kept, text.size());
  tail_size = kept + text.size();
}

void check_stop_strings(std::span<const StopString> strings) {
  const auto refuse = [](const std::string& sentence) {
    throw Error(ErrorCode::kInvalidArgument, sentence);
  };
  if (strings.size() > kMaxStopStrings) {
    refuse("There are " + std::to_string(strings.size()) + " stop strings; at most " +
           std::to_string(kMaxStopStrings) + " are possible.");
  }
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::string which = "Stop string " + std::to_string(i + 1);
    const std::string& text = strings[i].text;
    if (text.empty()) refuse(which + " is empty; leave it out.");
    if (text.size() > kMaxStopStringBytes) {
      refuse(which + " has " + std::to_string(text.size()) + " bytes; at most " +
             std::to_string(kMaxStopStringBytes) + " are possible.");
    }
    if (!is_valid_utf8(text)) refuse(which + " is not valid UTF-8; text never contains it.");
  }
}

}  // namespace sluice
