// What text a stream must show, said as plainly as possible: decode all bytes, look at every
// place, cut at the first stop. Slow, without state, and without a line in common with the engine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stream/request.hpp"
#include "engine/stream/scope_matcher.hpp"

namespace sluice::test {

// -- text -----------------------------------------------------------------------------------------

/// One row of Unicode 15, table 3-7 (well-formed UTF-8): the ranges of the bytes, in order.
struct Utf8Row {
  std::vector<std::pair<int, int>> ranges;
};

inline const std::vector<Utf8Row>& utf8_rows() {
  static const std::vector<Utf8Row> rows = {
      {{{0x00, 0x7F}}},
      {{{0xC2, 0xDF}, {0x80, 0xBF}}},
      {{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}}},
      {{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}}},
      {{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}}},
      {{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}}},
      {{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}}},
      {{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}}},
      {{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}}},
  };
  return rows;
}

struct DecodedText {
  std::string text;   ///< whole code points, invalid parts replaced
  bool open = false;  ///< the bytes end inside a code point, which is not in `text`
};

/// Every maximal part that begins a well-formed sequence but is none becomes one U+FFFD, every
/// other wrong byte one as well.
inline DecodedText decode_plainly(std::string_view bytes) {
  DecodedText result;
  std::size_t i = 0;
  while (i < bytes.size()) {
    std::size_t longest = 0;
    bool whole = false;
    for (const Utf8Row& row : utf8_rows()) {
      std::size_t n = 0;
      while (n < row.ranges.size() && i + n < bytes.size()) {
        const int byte = static_cast<unsigned char>(bytes[i + n]);
        if (byte < row.ranges[n].first || byte > row.ranges[n].second) break;
        ++n;
      }
      if (n > longest) {
        longest = n;
        whole = n == row.ranges.size();
      }
    }
    if (whole) {
      result.text += bytes.substr(i, longest);
    } else if (longest > 0 && i + longest == bytes.size()) {
      result.open = true;
    } else {
      result.text += "\xEF\xBF\xBD";
    }
    i += std::max<std::size_t>(longest, 1);
  }
  return result;
}

// -- stop strings ---------------------------------------------------------------------------------

/// Whether the boundary condition holds at `place` of a text whose start is `start`.
inline bool boundary_holds(std::string_view text, std::size_t start, std::size_t place,
                           StopBoundary boundary) {
  if (boundary == StopBoundary::kAnywhere || place == start) return true;
  const std::string_view before = text.substr(start, place - start);
  if (before.ends_with("\n")) return true;
  if (boundary == StopBoundary::kLineStart) return false;
  for (const std::string_view space :
       {"\t",     "\v",     "\f",     "\r",     " ",      "\u0085", "\u00A0", "\u1680",
        "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
        "\u2008", "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"}) {
    if (before.ends_with(space)) return true;
  }
  return false;
}

struct ReferenceStop {
  std::size_t index = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct ReferenceResult {
  std::optional<ReferenceStop> stop;
  /// Bytes at the end of the text that are a proper prefix of a stop string; 0 after a stop.
  std::size_t held = 0;
};

/// The first stop in `text`: the one that ends first, of those the one that begins first, of
/// those the first in the list. Nothing before `forgotten` is part of one.
inline ReferenceResult find_stop_plainly(std::string_view text,
                                         const std::vector<StopString>& strings,
                                         std::size_t forgotten = 0,
                                         const std::optional<ReasoningMarkers>& markers = {}) {
  std::size_t section = 0;  // where the section began
  bool reasoning = markers && markers->starts_open;
  const auto in_scope = [&](const StopString& string) {
    return string.scope == StopScope::kBoth || (string.scope == StopScope::kReasoning) == reasoning;
  };
  for (std::size_t end = 1; end <= text.size(); ++end) {
    const std::size_t first = std::max(section, forgotten);
    for (std::size_t begin = first; begin < end; ++begin) {
      for (std::size_t i = 0; i < strings.size(); ++i) {
        if (in_scope(strings[i]) && text.substr(begin, end - begin) == strings[i].text &&
            boundary_holds(text, section, begin, strings[i].boundary)) {
          return {ReferenceStop{i, begin, end}, 0};
        }
      }
    }
    if (!markers) continue;
    const std::string& marker = reasoning ? markers->close : markers->open;
    if (text.substr(section, end - section).ends_with(marker)) {
      section = end;
      reasoning = !reasoning;
    }
  }
  for (std::size_t begin = std::max(section, forgotten); begin < text.size(); ++begin) {
    const std::string_view suffix = text.substr(begin);
    for (const StopString& string : strings) {
      if (in_scope(string) && string.text.size() > suffix.size() &&
          std::string_view(string.text).starts_with(suffix) &&
          boundary_holds(text, section, begin, string.boundary)) {
        return {std::nullopt, suffix.size()};
      }
    }
  }
  return {};
}

}  // namespace sluice::test
