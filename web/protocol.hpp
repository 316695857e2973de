// Reads the client's frames of the WebSocket protocol (docs/protocol.md).
//
// Everything in a frame is hostile. A frame becomes a message, or an error whose sentence names
// the field, says what it may be and shows what was there.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "engine/sampling/sampling_params.hpp"
#include "engine/stream/request.hpp"

namespace sluice::web {

struct GenerateMessage {
  std::string id;
  GenerateRequest request;
};

/// cancel, pause and resume: something to do with a running stream.
struct SteerMessage {
  enum class Action { kCancel, kPause, kResume };
  Action action = Action::kCancel;
  std::string id;
};

struct ProtocolError {
  std::string code;     ///< "invalid_json", "invalid_request", "unknown_type"
  std::string message;  ///< a sentence for a person
  std::string id;       ///< of the `generate` that failed, when it could be read; else empty
};

using ParsedFrame = std::variant<GenerateMessage, SteerMessage, ProtocolError>;

/// Never throws but for lack of memory. Sampling options that the frame does not set are taken
/// from `defaults`.
ParsedFrame parse_frame(std::string_view json, const SamplingParams& defaults);

}  // namespace sluice::web
