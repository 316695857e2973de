#include "engine/stream/events.hpp"

namespace sluice {

std::string_view name(StopRule rule) {
  switch (rule) {
    case StopRule::kMaxNewTokens:
      return "max_new_tokens";
    case StopRule::kEndToken:
      return "end_token";
    case StopRule::kStopString:
      return "stop_string";
    case StopRule::kLowConfidence:
      return "low_confidence";
    case StopRule::kRepetition:
      return "repetition";
    case StopRule::kCustom:
      return "custom";
    case StopRule::kTimeLimit:
      return "time_limit";
    case StopRule::kContextFull:
      return "context_full";
    case StopRule::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

std::string_view name(MaximumSource source) {
  switch (source) {
    case MaximumSource::kRequest:
      return "request";
    case MaximumSource::kConfigured:
      return "configured";
    case MaximumSource::kLearned:
      return "learned";
    case MaximumSource::kContext:
      return "context";
  }
  return "unknown";
}

std::string_view finish_reason(StopRule rule) {
  switch (rule) {
    case StopRule::kEndToken:
    case StopRule::kStopString:
    case StopRule::kLowConfidence:
    case StopRule::kRepetition:
    case StopRule::kCustom:
      return "stop";
    case StopRule::kMaxNewTokens:
    case StopRule::kTimeLimit:
    case StopRule::kContextFull:
      return "length";
    case StopRule::kCancelled:
      return "cancelled";
  }
  return "stop";
}

}  // namespace sluice
