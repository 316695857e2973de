// String operations that filters and methods share.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

enum class Side : std::uint8_t { kBoth, kLeft, kRight };

/// strip(): white space, or the code points of `characters`.
TextPtr strip(Budget& budget, const Text& text, const Text* characters, Side side);
/// Non-overlapping occurrences, at most `count` of them when it is not negative.
TextPtr replace(Budget& budget, const Text& text, const Text& from, const Text& to,
                std::int64_t count);
/// splitlines().
std::vector<Value> split_lines(Budget& budget, const Text& text, bool keep_ends);
/// split(): at `separator`, or at runs of white space when it is null; at most `limit` cuts when
/// it is not negative, counted from the left or right.
std::vector<Value> split(Budget& budget, const Text& text, const Text* separator,
                         std::int64_t limit, bool from_right);
/// Texts of `items` with `separator` between.
TextPtr join(Budget& budget, const Text& separator, const std::vector<Value>& items,
             bool only_texts);

TextPtr upper(Budget& budget, const Text& text);
TextPtr lower(Budget& budget, const Text& text);
/// First letter in title case, all others in lower case.
TextPtr capitalize(Budget& budget, const Text& text);
/// str.title(): every run of letters is a word.
TextPtr title(Budget& budget, const Text& text);

/// int(text, base); nothing when it is not a number.
std::optional<Value> parse_integer(std::string_view text, int base);
/// float(text).
std::optional<double> parse_real(std::string_view text);

}  // namespace sluice::jinja
