// Reads the client's frames of the WebSocket protocol (docs/protocol.md).
//
// Everything in a frame is hostile. A frame becomes a message, or an error whose sentence names
// the field, says what it may be and shows what was there.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "engine/sampling/sampling_params.hpp"
#include "engine/stream/request.hpp"

namespace sluice::web {

struct GenerateMessage {
  std::string id;
  GenerateRequest request;
  std::chrono::milliseconds keep{0};  ///< without viewers and after the end; 0: not kept
};

/// Look at a kept stream, after event `after`.
struct ResumeMessage {
  std::string id;
  std::string stream;  ///< its key, from `accepted`
  std::uint64_t after = 0;
};

/// Something to do with a running stream.
struct SteerMessage {
  enum class Action { kCancel, kPause, kUnpause };
  Action action = Action::kCancel;
  std::string id;
};

struct ChangeMessage {
  std::string id;
  StreamChanges changes;
};

/// Begin or end to send what the machine is doing.
struct StatsMessage {
  bool on = true;
  bool held = false;  ///< with the text that is held back in this connection's streams
};

struct ProtocolError {
  std::string code;     ///< "invalid_json", "invalid_request", "unknown_type"
  std::string message;  ///< a sentence for a person
  std::string id;       ///< of the `generate` or `resume` that failed, if it could be read
};

using ParsedFrame = std::variant<GenerateMessage, ResumeMessage, SteerMessage, ChangeMessage,
                                 StatsMessage, ProtocolError>;

/// What the server allows and presumes.
struct FrameDefaults {
  SamplingParams sampling{};  ///< where the frame sets nothing
  std::chrono::milliseconds max_keep{300'000};
};

/// Never throws but for lack of memory.
ParsedFrame parse_frame(std::string_view json, const FrameDefaults& defaults);

}  // namespace sluice::web
