#include "engine/stream/pattern_matcher.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "engine/stream/start_ring.hpp"
#include "engine/stream/stop_regex.hpp"
#include "engine/stream/utf8_decode.hpp"

namespace sluice {

using Op = StopProgram::Op;

struct PatternMatcher::Impl {
  Impl(std::span<const StopPattern> patterns, std::size_t longest_match)
      : program(compile_stop_patterns(patterns)),
        longest(std::clamp<std::uint64_t>(longest_match, 1, kMaxStopPatternMatch)),
        now(program.states.size()),
        then(program.states.size()),
        seen(program.states.size(), 0) {
    live.reserve(program.states.size());
    touched.reserve(program.states.size());
    for (const bool line_start : {false, true}) find_entries(line_start);
  }

  const StopProgram::State& state(std::int32_t id) const {
    return program.states[static_cast<std::size_t>(id)];
  }
  bool takes(std::int32_t id, char32_t c) const {
    return program.sets[static_cast<std::size_t>(state(id).operand)].has(c);
  }
  StartRing& ring(std::vector<StartRing>& rings, std::int32_t id) {
    return rings[static_cast<std::size_t>(id)];
  }

  void find_entries(bool line_start);
  bool may_begin(char32_t c) const;
  std::optional<StopMatch> step(char32_t c, std::size_t size);
  void take(char32_t c);
  void touch(std::int32_t id);
  void follow_empty_ways();
  std::optional<StopMatch> settle(std::size_t size);
  void forget();

  StopProgram program;
  std::uint64_t longest;  ///< bytes of a match

  /// By "at the start of a line": the kChars states that a new candidate begins in, and which
  /// ASCII characters (and whether any others) they take.
  std::array<std::vector<std::int32_t>, 2> entries;
  std::array<std::array<bool, 129>, 2> begins = {};

  std::vector<StartRing> now;         ///< by state: starts of the candidates there
  std::vector<StartRing> then;        ///< the same after the character under way
  std::vector<std::int32_t> live;     ///< the kChars states whose `now` is not empty
  std::vector<std::int32_t> touched;  ///< the states whose `then` is not empty
  std::vector<char> seen;             ///< by state: 1: in `touched`; 2: not followed yet, too
  bool at_line_start = true;
  std::uint64_t position = 0;  ///< bytes fed so far
  std::uint64_t held = 0;      ///< bytes before `position` that are not safe to show
};

PatternMatcher::PatternMatcher(std::span<const StopPattern> patterns, std::size_t longest_match)
    : impl_(std::make_unique<Impl>(patterns, longest_match)) {}

PatternMatcher::~PatternMatcher() = default;
PatternMatcher::PatternMatcher(PatternMatcher&&) noexcept = default;
PatternMatcher& PatternMatcher::operator=(PatternMatcher&&) noexcept = default;

std::optional<StopMatch> PatternMatcher::feed(std::string_view text) {
  Impl& self = *impl_;
  if (self.program.starts.empty()) {
    self.position += text.size();
    return std::nullopt;
  }
  while (!text.empty()) {
    const DecodedCodePoint c = decode_code_point(text);
    if (self.live.empty() && !self.may_begin(c.value)) {
      self.position += c.size;
      self.at_line_start = c.value == '\n';
    } else if (const auto match = self.step(c.value, c.size)) {
      return match;
    }
    text.remove_prefix(c.size);
  }
  return std::nullopt;
}

std::uint64_t PatternMatcher::safe_end() const {
  return impl_->position - impl_->held;
}

void PatternMatcher::skip(std::string_view text) {
  Impl& self = *impl_;
  self.forget();
  self.position += text.size();
  if (!text.empty()) self.at_line_start = text.back() == '\n';
}

void PatternMatcher::restart(std::uint64_t offset) {
  impl_->forget();
  impl_->position = offset;
  impl_->at_line_start = true;
}

// -- beginnings -----------------------------------------------------------------------------------

void PatternMatcher::Impl::find_entries(bool line_start) {
  std::vector<std::int32_t> todo = program.starts;
  std::vector<bool> met(program.states.size(), false);
  auto& found = entries[line_start ? 1 : 0];
  auto& table = begins[line_start ? 1 : 0];
  while (!todo.empty()) {
    const std::int32_t id = todo.back();
    todo.pop_back();
    if (met[static_cast<std::size_t>(id)]) continue;
    met[static_cast<std::size_t>(id)] = true;
    switch (state(id).op) {
      case Op::kAccept:
        break;  // only in patterns that match the empty text, which are refused
      case Op::kSplit:
        todo.push_back(state(id).operand);
        todo.push_back(state(id).next);
        break;
      case Op::kLineStart:
        if (line_start) todo.push_back(state(id).next);
        break;
      case Op::kChars:
        found.push_back(id);
        for (char32_t c = 0; c < 128; ++c) table[c] = table[c] || takes(id, c);
        const auto& ranges = program.sets[static_cast<std::size_t>(state(id).operand)].ranges();
        table[128] = table[128] || (!ranges.empty() && ranges.back().last >= 128);
        break;
    }
  }
}

bool PatternMatcher::Impl::may_begin(char32_t c) const {
  return begins[at_line_start ? 1 : 0][std::min<char32_t>(c, 128)];
}

// -- one character --------------------------------------------------------------------------------

std::optional<StopMatch> PatternMatcher::Impl::step(char32_t c, std::size_t size) {
  take(c);
  position += size;
  at_line_start = c == '\n';
  follow_empty_ways();
  return settle(size);
}

/// Moves every candidate that takes `c` on, a new one that begins here included.
void PatternMatcher::Impl::take(char32_t c) {
  for (const std::int32_t id : live) {
    if (takes(id, c)) {
      touch(state(id).next);
      ring(then, state(id).next).merge(ring(now, id));
    }
    ring(now, id).clear();
  }
  live.clear();
  for (const std::int32_t id : entries[at_line_start ? 1 : 0]) {
    if (!takes(id, c)) continue;
    touch(state(id).next);
    ring(then, state(id).next).set(position);
  }
}

void PatternMatcher::Impl::touch(std::int32_t id) {
  char& mark = seen[static_cast<std::size_t>(id)];
  if (mark == 0) touched.push_back(id);
  mark = 2;
}

/// From the last state to the first, as almost all ways lead; what a way back into a repetition
/// changes is followed in another round. There are at most as many as repetitions are nested.
void PatternMatcher::Impl::follow_empty_ways() {
  const auto follow = [&](std::int32_t from, std::int32_t to) {
    char& mark = seen[static_cast<std::size_t>(to)];
    if (mark == 0) touched.push_back(to);
    mark = std::max<char>(mark, 1);
    if (!ring(then, to).merge_changes(ring(then, from))) return false;
    mark = 2;
    return to > from;
  };
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = program.states.size(); i-- > 0;) {
      if (seen[i] != 2) continue;
      seen[i] = 1;
      const auto id = static_cast<std::int32_t>(i);
      const StopProgram::State& way = program.states[i];
      if (way.op == Op::kSplit) {
        again = follow(id, way.operand) || again;
        again = follow(id, way.next) || again;
      } else if (way.op == Op::kLineStart && at_line_start) {
        again = follow(id, way.next) || again;
      }
    }
  }
}

/// Drops candidates that are or will be too long, and finds a match or what is held back.
std::optional<StopMatch> PatternMatcher::Impl::settle(std::size_t size) {
  std::optional<StopMatch> match;
  const std::uint64_t newest = position - size;
  std::uint64_t earliest = position;
  for (const std::int32_t id : touched) {
    seen[static_cast<std::size_t>(id)] = 0;
    const StopProgram::State& way = state(id);
    StartRing& starts = ring(then, id);
    const std::uint64_t need = program.needs[static_cast<std::size_t>(id)][0];
    const bool waits = way.op == Op::kChars;
    if ((waits || way.op == Op::kAccept) && need <= longest) {
      const std::uint64_t room = longest - need;
      const std::uint64_t from = position - std::min(position, room);
      const std::uint64_t first = starts.first(from, newest + 1);
      if (first <= newest && waits) {
        starts.keep(from, newest + 1);
        std::swap(ring(now, id), starts);
        live.push_back(id);
        earliest = std::min(earliest, first);
      } else if (first <= newest) {
        const StopMatch found{static_cast<std::size_t>(way.operand), first, position};
        const bool better = !match || found.begin < match->begin ||
                            (found.begin == match->begin && found.index < match->index);
        if (better) match = found;
      }
    }
    starts.clear();
  }
  touched.clear();
  held = position - earliest;
  if (match) held = match->end - match->begin;
  return match;
}

void PatternMatcher::Impl::forget() {
  for (const std::int32_t id : live) ring(now, id).clear();
  live.clear();
  held = 0;
}

}  // namespace sluice
