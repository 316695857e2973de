// What a caller asks for: one stream.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/chat/chat_template.hpp"
#include "engine/sampling/sampling_params.hpp"

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
};

struct GenerateRequest {
  /// A raw prompt, or a conversation for the model's chat template.
  std::variant<std::string, std::vector<ChatMessage>> input{};
  /// Special tokens written in a raw prompt are parsed (never in chat messages).
  bool parse_special = false;
  SamplingParams sampling{};
  std::optional<std::uint64_t> seed{};  ///< empty: drawn at random and reported in `accepted`
  StopOptions stop{};
  std::string salt{};  ///< callers with different salts share no prefix cache
};

}  // namespace sluice
