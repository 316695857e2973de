// What a caller asks for: one stream.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/chat/chat_template.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "engine/stream/custom_stop.hpp"

namespace sluice {

/// Where a stop string may match.
enum class StopBoundary {
  kAnywhere,
  kLineStart,   ///< at the start of the output or after a line feed
  kAfterSpace,  ///< at the start of the output or after white space
};

/// Which part of the output a stop string looks at.
enum class StopScope { kContent, kReasoning, kBoth };

struct StopString {
  std::string text{};  ///< 1 to 1024 bytes of UTF-8
  StopBoundary boundary = StopBoundary::kAnywhere;
  StopScope scope = StopScope::kContent;
  bool include = false;  ///< the matched text is shown

  bool operator==(const StopString&) const = default;
};

/// A regular expression as a stop; what it may say is in stop_regex.hpp.
struct StopPattern {
  std::string pattern{};
  StopScope scope = StopScope::kContent;
  bool include = false;  ///< the matched text is shown

  bool operator==(const StopPattern&) const = default;
};

/// When a stream ends. The rules are tried in the order of StopRule (events.hpp).
struct StopOptions {
  std::optional<Position> max_new_tokens{};  ///< empty: the engine's default
  Position min_new_tokens = 0;
  bool ignore_end_tokens = false;
  std::vector<TokenId> stop_token_ids{};    ///< besides the model's end tokens
  std::vector<StopString> stop_strings{};   ///< at most 64
  float min_confidence = 0.0F;              ///< low-confidence rule: top probability below it ...
  std::int32_t patience = 0;                ///< ... for so many tokens in a row; 0 is off
  std::int32_t repetition_ngram = 0;        ///< repetition rule: the same n-gram of this length ...
  std::int32_t repetition_times = 0;        ///< ... so many times in a row; 0 is off
  std::chrono::milliseconds time_limit{0};  ///< from acceptance; 0 is off
  std::vector<StopPattern> stop_patterns{};  ///< at most 64; the same rule as stop strings
  CustomStop custom{};                       ///< the caller's own rule; empty: none
  JudgeRule judge{};                         ///< likewise, as a judge; not both
};

/// What may change while a stream runs; what is empty stays as it is. Changes take hold from the
/// next token on. Text that was shown is never searched again; text that is held back is searched
/// at once with the new stops: it is shown as far as no stop can begin in it any more, and a stop
/// that is complete in it ends the stream. So does a maximum that is reached already.
struct StreamChanges {
  std::optional<Position> max_new_tokens{};
  std::optional<std::vector<StopString>> stop_strings{};    ///< instead of those before
  std::optional<std::vector<StopPattern>> stop_patterns{};  ///< likewise
  std::optional<float> temperature{};
};

struct GenerateRequest {
  /// A raw prompt, or a conversation for the model's chat template.
  std::variant<std::string, std::vector<ChatMessage>> input{};
  /// For a conversation: tools and options of the template.
  ChatOptions chat{};
  /// Special tokens written in a raw prompt are parsed (never in chat messages).
  bool parse_special = false;
  SamplingParams sampling{};
  std::optional<std::uint64_t> seed{};  ///< empty: drawn at random and reported in `accepted`
  StopOptions stop{};
  std::string salt{};  ///< callers with different salts share no prefix cache
  /// Higher ones leave the queue before lower ones that arrived earlier.
  std::int32_t priority = 0;
  /// Streams with the same number, prompt and salt are samples of one prompt, which is computed
  /// once. 0: none.
  std::uint64_t sample_group = 0;
};

}  // namespace sluice
