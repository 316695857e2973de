// Unicode data for composing characters. Hangul syllables are left out: they follow a formula.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

/// One step of canonical decomposition; `second` is 0 when it gives a single code point.
struct Decomposition {
  char32_t composed;
  char32_t first;
  char32_t second;
};

/// A pair that composes.
struct Composition {
  char32_t first;
  char32_t second;
  char32_t composed;
};

/// Code points of one canonical combining class, which is not 0.
struct CombiningRange {
  char32_t begin;
  char32_t last;
  std::uint8_t combining_class;
};

std::span<const Decomposition> decompositions();     ///< sorted by composed
std::span<const Composition> compositions();         ///< sorted by first, then second
std::span<const CombiningRange> combining_ranges();  ///< sorted by begin

}  // namespace sluice
