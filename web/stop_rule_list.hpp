// All stop rules, in the order in which they are tried.
#pragma once

#include <array>
#include <cstddef>

#include "engine/stream/events.hpp"

namespace sluice::web {

/// Follows the enumeration, whose last rule is kCancelled.
constexpr auto all_stop_rules() {
  constexpr std::size_t kCount = static_cast<std::size_t>(StopRule::kCancelled) + 1;
  std::array<StopRule, kCount> rules{};
  for (std::size_t i = 0; i < kCount; ++i) rules[i] = static_cast<StopRule>(i);
  return rules;
}

}  // namespace sluice::web
