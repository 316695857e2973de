// How a model marks its reasoning in its output.
#pragma once

#include <string>

namespace sluice {

struct ReasoningMarkers {
  std::string open;          ///< e.g. "<think>"; 1 to 1024 bytes of UTF-8
  std::string close;         ///< e.g. "</think>"
  bool starts_open = false;  ///< the prompt ends with the opening marker already

  bool operator==(const ReasoningMarkers&) const = default;
};

}  // namespace sluice
