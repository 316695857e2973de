// What a stream tells its listener; the same on the wire, in callbacks and in tests.
//
// Order of a stream's life: accepted, any number of token events, then exactly one done or
// error. Heartbeats may come at any time before the end. accepted, token, done and error are
// numbered 1, 2, 3, ...; a heartbeat carries the number of the event before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "engine/stream/reasoning_markers.hpp"

namespace sluice {

/// Why a stream ended, in the order in which the rules are tried.
enum class StopRule {
  kMaxNewTokens,
  kEndToken,
  kStopString,
  kLowConfidence,
  kRepetition,
  kCustom,  ///< the caller's own rule, StopOptions::custom
  kTimeLimit,
  kContextFull,
  kCancelled,  ///< by the client or by shutdown
};

/// "max_new_tokens", "end_token", "stop_string", ... as on the wire.
std::string_view name(StopRule rule);

/// OpenAI's word for it: "stop" or "length"; "cancelled" for kCancelled.
std::string_view finish_reason(StopRule rule);

/// Where the maximum in force comes from.
enum class MaximumSource {
  kRequest,     ///< the caller asked for it
  kConfigured,  ///< the default of the engine
  kLearned,     ///< the default, from the lengths of earlier answers
  kContext,     ///< what the context leaves, which is less than any of these
};

/// "request", "configured", "learned", "context", as on the wire.
std::string_view name(MaximumSource source);

struct AcceptedEvent {
  std::uint64_t number = 0;
  std::string model{};
  Position prompt_tokens = 0;
  Position max_new_tokens = 0;  ///< in force
  Position context_length = 0;
  std::uint64_t seed = 0;
  MaximumSource max_source = MaximumSource::kRequest;
  std::optional<ReasoningMarkers> reasoning{};  ///< for telling reasoning from content
};

/// The id of a piece that is no token; see TokenPiece.
inline constexpr TokenId kNoToken = -1;

/// One token as delivered. The texts of all pieces, joined, are the stream's text: a token that
/// ends inside a code point has its bytes in the piece that completes it; a token cut by a stop
/// keeps only what may be shown. Every token counted in usage is delivered exactly once, special
/// ones and the ending one with empty text. A piece with the id kNoToken has held-back text of a
/// token delivered before: at most one, the last of its event, in the last token event of a stream
/// or in one that a change of the stops caused. Details in token_pipeline.hpp.
struct TokenPiece {
  TokenId id = 0;
  std::string text{};  ///< whole code points, valid UTF-8
  float logprob = 0.0F;
  std::vector<TokenLogprob> top{};
};

struct TokenEvent {
  std::uint64_t number = 0;
  std::string text{};  ///< the pieces' texts joined
  std::vector<TokenPiece> pieces{};
};

struct Usage {
  Position prompt_tokens = 0;
  Position cached_tokens = 0;      ///< of the prompt, found in the prefix cache
  Position completion_tokens = 0;  ///< drawn and counted, the ending token included
};

struct Timing {
  std::chrono::microseconds queued{0};
  std::chrono::microseconds first_token{0};  ///< acceptance to first token (TTFT); 0: none came
  std::chrono::microseconds total{0};
  double tokens_per_second = 0.0;  ///< after the first token; 0 with fewer than 2
};

struct DoneEvent {
  std::uint64_t number = 0;
  StopRule rule = StopRule::kEndToken;
  std::string matched{};       ///< the stop string, the text a pattern matched, the end token's
                               ///< text, what the caller's own rule says; empty otherwise
  TokenId matched_token = -1;  ///< the end token, or -1
  std::uint64_t position = 0;  ///< byte offset in the stream's text where the rule took hold
  std::string detail{};        ///< e.g. who cancelled, or the pattern that matched
  Usage usage{};
  Timing timing{};
};

struct ErrorEvent {
  std::uint64_t number = 0;
  std::string code{};     ///< one of the codes in docs/protocol.md, e.g. "prompt_too_long"
  std::string message{};  ///< a sentence for a person
};

struct HeartbeatEvent {
  std::uint64_t number = 0;
  std::string phase{};  ///< "queued", "prefill", "decode", "paused"
  std::int32_t queue_position = 0;
  Position prefill_done = 0;
  Position prefill_total = 0;
};

using Event = std::variant<AcceptedEvent, TokenEvent, DoneEvent, ErrorEvent, HeartbeatEvent>;

inline bool is_terminal(const Event& event) {
  return std::holds_alternative<DoneEvent>(event) || std::holds_alternative<ErrorEvent>(event);
}

inline std::uint64_t number_of(const Event& event) {
  return std::visit([](const auto& e) { return e.number; }, event);
}

}  // namespace sluice
