// Reads the text of a stop pattern into a tree; what may be said is in stop_regex.hpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/stream/code_point_set.hpp"

namespace sluice {

struct RegexNode {
  enum class Kind { kEmpty, kChars, kLineStart, kSequence, kChoice, kRepeat };
  static constexpr std::int32_t kUnlimited = -1;

  Kind kind = Kind::kEmpty;
  std::int32_t set = 0;               ///< kChars: index into RegexTree::sets
  std::int32_t min = 0;               ///< kRepeat
  std::int32_t max = kUnlimited;      ///< kRepeat
  std::vector<std::int32_t> parts{};  ///< indices into RegexTree::nodes; kRepeat has one
};

struct RegexTree {
  std::vector<RegexNode> nodes;
  std::vector<CodePointSet> sets;
  std::int32_t root = 0;
};

/// Throws Error(kInvalidArgument) with a sentence, without its subject, that ends with the place:
/// "has a group that is not closed (at byte 3)."
RegexTree parse_stop_regex(std::string_view pattern);

}  // namespace sluice
