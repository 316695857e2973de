// Reads the bodies of /v1/chat/completions and /v1/completions. What is supported and what is
// refused is in docs/openai.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/sampling/sampling_params.hpp"
#include "engine/stream/request.hpp"
#include "web/openai/api_error.hpp"

namespace sluice::web::openai {

struct ApiRequest {
  bool chat = true;
  /// One for each prompt; all but the prompt is the same. At least one.
  std::vector<GenerateRequest> prompts{};
  std::int32_t n = 1;          ///< answers to each prompt
  bool stream = false;         ///< as server-sent events
  bool include_usage = false;  ///< a last chunk with the usage
  bool logprobs = false;

  std::size_t num_choices() const { return prompts.size() * static_cast<std::size_t>(n); }
};

/// What the server allows and presumes.
struct ApiDefaults {
  SamplingParams sampling{};
  std::string model{};           ///< the only one there is
  std::size_t max_choices = 64;  ///< of one request
};

using ParsedRequest = std::variant<ApiRequest, ApiError>;

/// Never throws but for lack of memory.
ParsedRequest parse_chat_request(std::string_view body, const ApiDefaults& defaults);
ParsedRequest parse_completion_request(std::string_view body, const ApiDefaults& defaults);

}  // namespace sluice::web::openai
