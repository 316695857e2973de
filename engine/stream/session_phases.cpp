#include "engine/stream/session_phases.hpp"

#include <string_view>

namespace sluice {

std::string_view name(SessionPhase phase) {
  switch (phase) {
    case SessionPhase::kQueued:
      return "queued";
    case SessionPhase::kPrefill:
      return "prefill";
    case SessionPhase::kDecode:
      return "decode";
    case SessionPhase::kPaused:
      return "paused";
    case SessionPhase::kFlushing:
      return "flushing";
    case SessionPhase::kClosed:
      return "closed";
  }
  return "unknown";
}

}  // namespace sluice
