// Unicode data for compatibility decomposition and lower case.
#pragma once

#include <cstdint>
#include <span>

namespace sluice {

/// The full decomposition of a compatibility character: a range of compatibility_parts().
struct CompatibilityDecomposition {
  char32_t composed;
  std::uint16_t begin;
  std::uint16_t size;
};

struct LowerCasePair {
  char32_t upper;
  char32_t lower;
};

std::span<const CompatibilityDecomposition> compatibility_decompositions();  ///< sorted
std::span<const char32_t> compatibility_parts();
/// Sorted by upper; without U+0130, whose lower case has two code points.
std::span<const LowerCasePair> lower_case_pairs();

}  // namespace sluice
