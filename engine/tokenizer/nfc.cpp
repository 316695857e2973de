#include "engine/tokenizer/nfc.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/tokenizer/nfc_tables.hpp"
#include "engine/tokenizer/unicode_form.hpp"
#include "engine/tokenizer/unicode_form_tables.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

// Hangul syllables: leading consonant, vowel, optional trailing consonant (Unicode, 3.12).
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11A7;
constexpr char32_t kNumLeads = 19;
constexpr char32_t kNumVowels = 21;
constexpr char32_t kNumTrails = 28;
constexpr char32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

std::uint8_t combining_class(char32_t c) {
  const auto ranges = combining_ranges();
  const auto after = std::upper_bound(
      ranges.begin(), ranges.end(), c,
      [](char32_t value, const CombiningRange& range) { return value < range.begin; });
  if (after == ranges.begin()) return 0;
  const CombiningRange& range = *std::prev(after);
  return c <= range.last ? range.combining_class : 0;
}

/// Appends the compatibility decomposition of `c`, when it has one that is not canonical.
bool decompose_compatibly(char32_t c, std::vector<char32_t>& out) {
  const auto rows = compatibility_decompositions();
  const auto row = std::lower_bound(rows.begin(), rows.end(), c,
                                    [](const CompatibilityDecomposition& entry, char32_t value) {
                                      return entry.composed < value;
                                    });
  if (row == rows.end() || row->composed != c) return false;
  const auto parts = compatibility_parts().subspan(row->begin, row->size);
  out.insert(out.end(), parts.begin(), parts.end());
  return true;
}

/// Appends the full canonical decomposition of `c`.
void decompose(char32_t c, std::vector<char32_t>& out) {
  if (c >= kSyllables && c < kSyllables + kNumSyllables) {
    const char32_t index = c - kSyllables;
    out.push_back(kLeads + index / (kNumVowels * kNumTrails));
    out.push_back(kVowels + index % (kNumVowels * kNumTrails) / kNumTrails);
    if (index % kNumTrails != 0) out.push_back(kTrails + index % kNumTrails);
    return;
  }
  const auto rows = decompositions();
  const auto row = std::lower_bound(
      rows.begin(), rows.end(), c,
      [](const Decomposition& entry, char32_t value) { return entry.composed < value; });
  if (row == rows.end() || row->composed != c) {
    out.push_back(c);
    return;
  }
  decompose(row->first, out);  // at most four levels deep in Unicode
  if (row->second != 0) decompose(row->second, out);
}

/// What a pair composes to, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kNumLeads && second >= kVowels &&
      second < kVowels + kNumVowels) {
    return kSyllables + ((first - kLeads) * kNumVowels + (second - kVowels)) * kNumTrails;
  }
  if (first >= kSyllables && first < kSyllables + kNumSyllables &&
      (first - kSyllables) % kNumTrails == 0 && second > kTrails && second < kTrails + kNumTrails) {
    return first + (second - kTrails);
  }
  const auto rows = compositions();
  const auto row = std::lower_bound(rows.begin(), rows.end(), std::pair(first, second),
                                    [](const Composition& entry, const auto& pair) {
                                      return std::pair(entry.first, entry.second) < pair;
                                    });
  const bool found = row != rows.end() && row->first == first && row->second == second;
  return found ? row->composed : 0;
}

struct Point {
  char32_t code_point = 0;
  std::uint8_t combining_class = 0;
};

/// Puts each run of combining marks into the order of their classes.
void order_marks(std::vector<Point>& points) {
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin;
    while (end < points.size() && points[end].combining_class != 0) ++end;
    std::stable_sort(
        points.begin() + static_cast<std::ptrdiff_t>(begin),
        points.begin() + static_cast<std::ptrdiff_t>(end),
        [](const Point& a, const Point& b) { return a.combining_class < b.combining_class; });
    begin = end + 1;
  }
}

/// Joins each starter with what follows and is not blocked; shortens `points`.
void compose_all(std::vector<Point>& points) {
  std::size_t kept = 0;
  std::size_t starter = points.size();  // index of the last starter kept, if any
  for (const Point point : points) {
    // Blocked: something of class 0, or of at least the same class, stands between.
    const bool adjacent = starter + 1 == kept;
    const bool open =
        starter < kept && (adjacent || (points[kept - 1].combining_class != 0 &&
                                        points[kept - 1].combining_class < point.combining_class));
    if (open) {
      const char32_t composed = compose(points[starter].code_point, point.code_point);
      if (composed != 0) {
        points[starter].code_point = composed;
        continue;
      }
    }
    if (point.combining_class == 0) starter = kept;
    points[kept++] = point;
  }
  points.resize(kept);
}

char32_t decode(std::string_view text, std::size_t at, std::size_t length) {
  constexpr unsigned kLeadMask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t c = static_cast<unsigned char>(text[at]) & kLeadMask[length];
  for (std::size_t i = 1; i < length; ++i) {
    c = c << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  }
  return c;
}

void encode(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  const auto tail = [&](unsigned shift) { put(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    put(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

void append_normalized(std::string_view well_formed, UnicodeForm form, std::string& out) {
  const bool compatible = form == UnicodeForm::kKc || form == UnicodeForm::kKd;
  std::vector<char32_t> decomposed;
  for (std::size_t at = 0; at < well_formed.size();) {
    const std::size_t length = utf8_length(well_formed, at);
    const char32_t c = decode(well_formed, at, length);
    if (!compatible || !decompose_compatibly(c, decomposed)) decompose(c, decomposed);
    at += length;
  }
  std::vector<Point> points;
  points.reserve(decomposed.size());
  for (const char32_t c : decomposed) points.push_back({c, combining_class(c)});
  order_marks(points);
  if (form == UnicodeForm::kC || form == UnicodeForm::kKc) compose_all(points);
  for (const Point& point : points) encode(point.code_point, out);
}

}  // namespace

bool may_need_nfc(std::string_view text) {
  // Below U+0300, whose first byte is 0xCC, nothing combines or decomposes differently.
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0xCC; });
}

std::string normalize_nfc(std::string_view text) {
  return normalize_unicode(text, UnicodeForm::kC);
}

std::string normalize_unicode(std::string_view text, UnicodeForm form) {
  std::string out;
  out.reserve(text.size());
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) {
      append_normalized(text.substr(begin, at - begin), form, out);
      out += text[at];
      begin = at + 1;
    }
    at += std::max<std::size_t>(1, length);
  }
  append_normalized(text.substr(begin), form, out);
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  const auto pairs = lower_case_pairs();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text, at);
    if (length < 2) {
      const char c = text[at];
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
      ++at;
      continue;
    }
    const char32_t c = decode(text, at, length);
    at += length;
    if (c == 0x130) {  // the only one with two code points
      out += "i\u0307";
      continue;
    }
    const auto pair = std::lower_bound(
        pairs.begin(), pairs.end(), c,
        [](const LowerCasePair& entry, char32_t value) { return entry.upper < value; });
    encode(pair != pairs.end() && pair->upper == c ? pair->lower : c, out);
  }
  return out;
}

}  // namespace sluice
