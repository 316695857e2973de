// Tables behind unicode.hpp, written by scripts/make_unicode_tables.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sluice::jinja {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

/// first, first + stride, ..., last: each maps to itself plus `delta`.
struct CaseRun {
  char32_t first;
  char32_t last;
  std::uint32_t stride;
  std::int32_t delta;
};

struct SpecialCase {
  char32_t from;
  char32_t to[3];
  std::size_t count;
};

extern const std::span<const CodePointRange> kUnprintable;
extern const std::span<const CodePointRange> kAlphabetic;
extern const std::span<const CodePointRange> kDigits;
extern const std::span<const CodePointRange> kNumeric;  ///< in isalnum() but not in isalpha()
extern const std::span<const CodePointRange> kUppercase;
extern const std::span<const CodePointRange> kLowercase;
extern const std::span<const CodePointRange> kTitlecase;
extern const std::span<const CaseRun> kToUpper;
extern const std::span<const CaseRun> kToLower;
extern const std::span<const SpecialCase> kSpecialUpper;
extern const std::span<const SpecialCase> kSpecialLower;
extern const std::span<const SpecialCase> kSpecialTitle;  ///< title case where upper case differs

}  // namespace sluice::jinja
