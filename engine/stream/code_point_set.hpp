// Sets of Unicode code points, for the classes of stop patterns.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

struct CodePointRange {
  char32_t first = 0;
  char32_t last = 0;  ///< included
};

/// Bytes of a code point in UTF-8.
constexpr std::size_t utf8_size(char32_t c) {
  if (c < 0x80) return 1;
  if (c < 0x800) return 2;
  return c < 0x10000 ? 3 : 4;
}

/// Code points that text can have: no surrogates, which UTF-8 does not encode.
class CodePointSet {
 public:
  static constexpr char32_t kLast = 0x10FFFF;

  CodePointSet() = default;
  /// Ranges in any order, also overlapping.
  explicit CodePointSet(std::vector<CodePointRange> ranges) {
    std::ranges::sort(ranges, {}, &CodePointRange::first);
    for (const CodePointRange& range : ranges) {
      add(range.first, std::min<char32_t>(range.last, 0xD7FF));
      add(std::max<char32_t>(range.first, 0xE000), std::min(range.last, kLast));
    }
    for (const CodePointRange& range : ranges_) {
      for (char32_t c = range.first; c <= range.last && c < 128; ++c) {
        ascii_[c / 64] |= std::uint64_t{1} << (c % 64);
      }
    }
  }

  CodePointSet complement() const {
    std::vector<CodePointRange> ranges;
    char32_t next = 0;
    for (const CodePointRange& range : ranges_) {
      if (next < range.first) ranges.push_back({next, range.first - 1});
      next = range.last + 1;
    }
    if (next <= kLast) ranges.push_back({next, kLast});
    return CodePointSet(std::move(ranges));
  }

  bool has(char32_t c) const {
    if (c < 128) return (ascii_[c / 64] >> (c % 64) & 1U) != 0;
    const auto after = std::ranges::upper_bound(ranges_, c, {}, &CodePointRange::first);
    return after != ranges_.begin() && c <= std::prev(after)->last;
  }

  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  /// `first` is at or behind the first of the range before.
  void add(char32_t first, char32_t last) {
    if (first > last) return;
    if (ranges_.empty() || first > ranges_.back().last + 1) {
      ranges_.push_back({first, last});
    } else {
      ranges_.back().last = std::max(ranges_.back().last, last);
    }
  }

  std::vector<CodePointRange> ranges_;       ///< sorted, apart from each other
  std::array<std::uint64_t, 2> ascii_ = {};  ///< bit c: has(c), for c < 128
};

}  // namespace sluice
