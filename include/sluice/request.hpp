// What a caller asks for: one stream.
//
//   sluice::Request request;
//   request.input = std::vector<sluice::ChatMessage>{{"user", "Why is the sky blue?"}};
//   request.sampling.temperature = 0.0F;
//   request.stop.max_new_tokens = 200;
//   request.stop.stop_strings = {{.text = "\nUser:"}};
//
// Every type here owns its data; an engine keeps its own copy.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sluice/stop_rule.hpp"
#include "sluice/version.hpp"

namespace sluice {
namespace SLUICE_PUBLIC v0 {

/// One message of a conversation.
struct ChatMessage {
  std::string role;                 ///< "system", "user" or "assistant"; templates may know others
  std::string content;              ///< never parsed for special tokens
  std::string reasoning_content{};  ///< what an assistant thought before the content
  std::string tool_calls{};         ///< of an assistant: a JSON array, as the chat API has it
  std::string tool_call_id{};       ///< of a tool: the call that the content answers
  std::string name{};               ///< of a tool or a participant
};

/// What goes to the model's chat template besides the messages.
struct ChatOptions {
  bool add_generation_prompt = true;  ///< the prompt ends where the assistant begins to speak
  std::string tools{};                ///< a JSON array of tool descriptions; empty: none
  /// A JSON object whose members become variables, e.g. {"enable_thinking": false}.
  std::string template_options{};
};

/// Added to the logit of a token.
struct LogitBias {
  TokenId token = 0;  ///< which
  float bias = 0.0F;  ///< how much
};

/// How the next token is chosen. Applied in this order: bias, penalties, temperature, top-k,
/// top-p, min-p, draw.
struct Sampling {
  float temperature = 0.7F;             ///< 0 is greedy
  std::int32_t top_k = 0;               ///< keep the k most likely; 0 keeps all
  float top_p = 0.95F;                  ///< keep the smallest set with this much probability
  float min_p = 0.0F;                   ///< drop what is below min_p times the top; 0 is off
  float repetition_penalty = 1.0F;      ///< on tokens in prompt or output; 1 is off
  float presence_penalty = 0.0F;        ///< subtracted once from tokens in the output
  float frequency_penalty = 0.0F;       ///< subtracted per occurrence in the output
  std::int32_t num_top_logprobs = 0;    ///< alternatives reported with each token, at most 20
  std::vector<LogitBias> logit_bias{};  ///< of single tokens
};

/// Where a stop string may match.
enum class StopBoundary {
  kAnywhere,    ///< everywhere
  kLineStart,   ///< at the start of the output or after a line feed
  kAfterSpace,  ///< at the start of the output or after white space
};

/// Which part of the output a stop looks at.
enum class StopScope {
  kContent,    ///< what comes outside the reasoning markers
  kReasoning,  ///< what comes between them
  kBoth,       ///< everything
};

/// Text that ends the stream.
struct StopString {
  std::string text{};                               ///< 1 to 1024 bytes of UTF-8
  StopBoundary boundary = StopBoundary::kAnywhere;  ///< where it may begin
  StopScope scope = StopScope::kContent;            ///< where it is looked for
  bool include = false;                             ///< the matched text is shown
};

/// A regular expression that ends the stream; docs/stop-rules.md says what it may contain.
struct StopPattern {
  std::string pattern{};                  ///< the expression
  StopScope scope = StopScope::kContent;  ///< where it is looked for
  bool include = false;                   ///< the matched text is shown
};

/// When a stream ends. The rules are tried in the order of StopRule (events.hpp).
struct StopOptions {
  std::optional<std::int32_t> max_new_tokens{};  ///< empty: the engine's default
  std::int32_t min_new_tokens = 0;               ///< nothing ends the answer before
  bool ignore_end_tokens = false;                ///< the model's own ends do not count
  std::vector<TokenId> stop_token_ids{};         ///< besides these
  std::vector<StopString> stop_strings{};        ///< at most 64
  std::vector<StopPattern> stop_patterns{};      ///< at most 64
  float min_confidence = 0.0F;                   ///< low confidence: top probability below it ...
  std::int32_t patience = 0;                     ///< ... for so many tokens in a row; 0 is off
  std::int32_t repetition_ngram = 0;             ///< repetition: the same n-gram of this length ...
  std::int32_t repetition_times = 0;             ///< ... so many times in a row; 0 is off
  std::chrono::milliseconds time_limit{0};       ///< from acceptance; 0 is off
  CustomStop custom{};                           ///< the caller's own rule; empty: none
  JudgeRule judge{};                             ///< likewise, one that answers later; not both
};

/// One stream, as it is asked for.
struct Request {
  /// A raw prompt, or a conversation for the model's chat template.
  std::variant<std::string, std::vector<ChatMessage>> input{};
  ChatOptions chat{};          ///< for a conversation
  bool parse_special = false;  ///< special tokens written in a raw prompt are parsed
  Sampling sampling{};         ///< how tokens are chosen
  /// The same seed gives the same bytes, whatever else is running. Empty: a random one, which
  /// AcceptedEvent reports.
  std::optional<std::uint64_t> seed{};
  StopOptions stop{};              ///< when it ends
  std::string salt{};              ///< callers with different salts share no prefix cache
  std::int32_t priority = 0;       ///< higher ones leave the queue before lower ones
  std::uint64_t sample_group = 0;  ///< streams with the same number and prompt compute it once
};

/// What may change while a stream runs; what is empty stays as it is. Changes take hold from the
/// next token on; text that was shown is never taken back.
struct Changes {
  std::optional<std::int32_t> max_new_tokens{};             ///< another maximum
  std::optional<std::vector<StopString>> stop_strings{};    ///< instead of those before
  std::optional<std::vector<StopPattern>> stop_patterns{};  ///< likewise
  std::optional<float> temperature{};                       ///< another temperature
};

}  // namespace v0
}  // namespace sluice
