// What a stream tells its listener: the same as on the wire (docs/protocol.md).
//
// Order of a stream's life: accepted, any number of token events, then exactly one done or error.
// A request that can't be served gets its error alone. Heartbeats may come at any time before the
// end. accepted, token, done and error are numbered 1, 2, 3, ...; a heartbeat carries the number
// of the event before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sluice/stop_rule.hpp"
#include "sluice/version.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// Why a stream ended, in the order in which the rules are tried.
enum class StopRule {
  kMaxNewTokens,   ///< as long as was asked for
  kEndToken,       ///< the model said so
  kStopString,     ///< a stop string or pattern
  kLowConfidence,  ///< the model no longer knew what to say
  kRepetition,     ///< it said the same again and again
  kCustom,         ///< the caller's own rule
  kTimeLimit,      ///< StopOptions::time_limit
  kContextFull,    ///< no position is left
  kCancelled,      ///< by the caller, or the engine went away
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

/// How the model marks its reasoning in its output.
struct ReasoningMarkers {
  std::string open{};        ///< e.g. "<think>"
  std::string close{};       ///< e.g. "</think>"
  bool starts_open = false;  ///< the prompt ends with the opening marker already
};

/// The stream is taken.
struct AcceptedEvent {
  std::uint64_t number = 0;                            ///< of the event
  std::string model{};                                 ///< its name
  std::int32_t prompt_tokens = 0;                      ///< length of the prompt
  std::int32_t max_new_tokens = 0;                     ///< in force
  std::int32_t context_length = 0;                     ///< prompt and answer together at most
  std::uint64_t seed = 0;                              ///< in force
  MaximumSource max_source = MaximumSource::kRequest;  ///< where max_new_tokens comes from
  std::optional<ReasoningMarkers> reasoning{};         ///< for telling reasoning from content
};

/// The id of a piece that is no token; see TokenPiece.
inline constexpr TokenId kNoToken = -1;

/// One token as delivered. The texts of all pieces, joined, are the stream's text: a token that
/// ends inside a code point has its bytes in the piece that completes it; a token cut by a stop
/// keeps only what may be shown. Every token counted in usage is delivered exactly once. A piece
/// with the id kNoToken has held-back text of a token delivered before.
struct TokenPiece {
  TokenId id = 0;                   ///< in the model's vocabulary
  std::string text{};               ///< whole code points, valid UTF-8; maybe none
  float logprob = 0.0F;             ///< natural logarithm of its probability
  std::vector<TokenLogprob> top{};  ///< alternatives, most likely first, as requested
};

/// One or more tokens.
struct TokenEvent {
  std::uint64_t number = 0;          ///< of the event
  std::string text{};                ///< the pieces' texts joined
  std::vector<TokenPiece> pieces{};  ///< in order
};

/// What was counted.
struct Usage {
  std::int32_t prompt_tokens = 0;      ///< in the prompt
  std::int32_t cached_tokens = 0;      ///< of these, found in the prefix cache
  std::int32_t completion_tokens = 0;  ///< drawn and counted, the ending token included
};

/// How long it took.
struct Timing {
  std::chrono::microseconds queued{0};       ///< before the prompt was begun
  std::chrono::microseconds first_token{0};  ///< acceptance to first token; 0: none came
  std::chrono::microseconds total{0};        ///< acceptance to end
  double tokens_per_second = 0.0;            ///< after the first token; 0 with fewer than 2
};

/// The end, as it should be.
struct DoneEvent {
  std::uint64_t number = 0;             ///< of the event
  StopRule rule = StopRule::kEndToken;  ///< why
  std::string matched{};       ///< the stop string, the matched text, what the caller's rule says
  TokenId matched_token = -1;  ///< the end token, or -1
  std::uint64_t position = 0;  ///< byte offset in the stream's text where the rule took hold
  std::string detail{};        ///< e.g. who cancelled, or the pattern that matched
  Usage usage{};               ///< what was counted
  Timing timing{};             ///< how long it took
};

/// The end, because something went wrong.
struct ErrorEvent {
  std::uint64_t number = 0;  ///< of the event
  std::string code{};        ///< one of the codes in docs/protocol.md, e.g. "prompt_too_long"
  std::string message{};     ///< a sentence for a person
};

/// A sign of life.
struct HeartbeatEvent {
  std::uint64_t number = 0;         ///< of the event before it
  std::string phase{};              ///< "queued", "prefill", "decode", "paused"
  std::int32_t queue_position = 0;  ///< 1 is next
  std::int32_t prefill_done = 0;    ///< positions of the prompt
  std::int32_t prefill_total = 0;   ///< of so many
};

/// Anything that a stream says.
using Event = std::variant<AcceptedEvent, TokenEvent, DoneEvent, ErrorEvent, HeartbeatEvent>;

/// Nothing follows.
inline bool is_terminal(const Event& event) {
  return std::holds_alternative<DoneEvent>(event) || std::holds_alternative<ErrorEvent>(event);
}

/// For Stream::delivered().
inline std::uint64_t number_of(const Event& event) {
  return std::visit([](const auto& e) { return e.number; }, event);
}

}  // namespace v0
}  // namespace sluice
