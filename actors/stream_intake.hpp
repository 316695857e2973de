// From what a caller asks for to what session and scheduler need, with every check in between.
//
// Worked example, a model of context 512 and a prompt of 500 tokens: max_new_tokens 100 becomes
// 12 (the room left); a prompt of 512 tokens is refused with prompt_too_long, because not even
// one token of output would fit.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/answer_lengths.hpp"
#include "engine/chat/chat_template.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "engine/stream/low_confidence.hpp"
#include "engine/stream/request.hpp"
#include "engine/stream/session_machine.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// What all streams of an engine have in common; constant while it lives.
struct ServiceContext {
  std::string model_name;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;
  Position context_length = 0;             ///< prompt and output of one stream; fits model and pool
  Position max_encoder_input = 0;          ///< tokens of the longest input; 0: no encoder
  TokenId decoder_start = 0;               ///< with an encoder: follows its input in the prompt
  Position default_max_new_tokens = 512;   ///< as configured
  std::shared_ptr<AnswerLengths> lengths;  ///< knows the default in force; none: as configured
  LowConfidenceDefaults low_confidence;
  std::vector<TokenId> end_tokens;  ///< of tokenizer and template, sorted
  std::int32_t credit_window = 16;
  std::chrono::milliseconds heartbeat_interval{10000};
};

/// A request that can be served.
struct PreparedStream {
  SessionConfig session;
  std::vector<TokenId> prompt;
  std::shared_ptr<const SamplingParams> sampling;
  std::vector<TokenId> end_tokens;  ///< after which the scheduler waits for the session's verdict
  std::string salt;
};

/// Why a request can't be served, for an ErrorEvent.
struct IntakeError {
  std::string code;  ///< "invalid_request" or "prompt_too_long"
  std::string message;
};

/// Checks, renders, tokenises. Does not throw for any request. Linear in the prompt.
std::variant<PreparedStream, IntakeError> prepare_stream(const GenerateRequest& request,
                                                         const ServiceContext& service);

/// The checks on numbers and strings alone: empty when the request is sound, else a sentence
/// that names the field, its value and what is allowed.
std::optional<std::string> find_fault(const GenerateRequest& request, std::size_t vocab_size);

/// The tokens that end a turn: the tokenizer's and the template's, sorted, each once.
std::vector<TokenId> union_of_end_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace sluice
