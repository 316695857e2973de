#include "actors/stream_intake.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "engine/base/error.hpp"

namespace sluice {

namespace {

/// Token ids, and whether the model's output goes on inside of reasoning.
struct EncodedPrompt {
  std::vector<TokenId> ids;
  bool in_reasoning = false;
};
using Prompt = std::variant<EncodedPrompt, IntakeError>;

IntakeError invalid(std::string message) {
  return {"invalid_request", std::move(message)};
}

std::vector<TokenId> encode_raw(const std::string& text, bool parse_special,
                                const Tokenizer& tokenizer) {
  return tokenizer.encode(text, {.add_special = true, .parse_special = parse_special});
}

/// A template that writes the start token itself must not get a second one.
std::vector<TokenId> encode_rendered(const RenderedPrompt& rendered, const Tokenizer& tokenizer) {
  EncodeOptions options{.parse_special = true, .literal = rendered.literal};
  const TokenId bos = tokenizer.bos();
  const bool writes_bos = bos >= 0 && !tokenizer.token_bytes(bos).empty() &&
                          rendered.text.starts_with(tokenizer.token_bytes(bos));
  options.add_special = !writes_bos;
  return tokenizer.encode(rendered.text, options);
}

bool leaves_reasoning_open(std::string_view text, const ServiceContext& service) {
  const auto tags = service.chat_template->reasoning();
  return tags && ends_in_reasoning(text, *tags);
}

Prompt make_prompt(const GenerateRequest& request, const ServiceContext& service) {
  if (const auto* text = std::get_if<std::string>(&request.input)) {
    if (text->empty()) return invalid("The prompt is empty; send at least one character.");
    return EncodedPrompt{encode_raw(*text, request.parse_special, *service.tokenizer),
                         leaves_reasoning_open(*text, service)};
  }
  const auto& messages = std::get<std::vector<ChatMessage>>(request.input);
  if (messages.empty()) return invalid("There are no messages; send at least one.");
  try {
    const RenderedPrompt rendered = service.chat_template->render_chat(messages, request.chat);
    return EncodedPrompt{encode_rendered(rendered, *service.tokenizer),
                         leaves_reasoning_open(rendered.text, service)};
  } catch (const Error& error) {
    return invalid(error.what());
  }
}

IntakeError too_long(std::size_t prompt_tokens, Position context_length) {
  return {"prompt_too_long",
          fmt::format("The prompt has {} tokens; this model takes at most {} and one of output.",
                      prompt_tokens, std::max(context_length - 1, 0))};
}

IntakeError too_long_for_encoder(std::size_t prompt_tokens, Position most) {
  return {"prompt_too_long", fmt::format("The prompt has {} tokens; the encoder takes at most {}.",
                                         prompt_tokens, most)};
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

std::vector<TokenId> sorted_union(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

/// What was asked for, or the default in force.
std::pair<Position, MaximumSource> wished_maximum(const GenerateRequest& request,
                                                  const ServiceContext& service) {
  if (request.stop.max_new_tokens) return {*request.stop.max_new_tokens, MaximumSource::kRequest};
  if (!service.lengths) return {service.default_max_new_tokens, MaximumSource::kConfigured};
  const DefaultMaximum in_force = service.lengths->in_force();
  return {std::max(in_force.tokens, 1),
          in_force.observed ? MaximumSource::kLearned : MaximumSource::kConfigured};
}

SamplingParams make_sampling(const GenerateRequest& request, std::uint64_t seed,
                             const std::vector<TokenId>& end_tokens) {
  SamplingParams sampling = request.sampling;
  sampling.seed = seed;
  sampling.min_new_tokens = std::max(sampling.min_new_tokens, request.stop.min_new_tokens);
  if (sampling.min_new_tokens > 0) {
    sampling.banned_before_min = sorted_union(std::move(sampling.banned_before_min), end_tokens);
  }
  return sampling;
}

}  // namespace

std::variant<PreparedStream, IntakeError> prepare_stream(const GenerateRequest& request,
                                                         const ServiceContext& service) {
  if (auto fault = find_fault(request, service.tokenizer->vocab_size())) {
    return invalid(std::move(*fault));
  }
  Prompt made = make_prompt(request, service);
  if (auto* error = std::get_if<IntakeError>(&made)) return std::move(*error);

  auto& [prompt, in_reasoning] = std::get<EncodedPrompt>(made);
  if (prompt.empty()) return invalid("The prompt has no tokens; send some text.");
  if (service.max_encoder_input > 0) {
    if (prompt.size() > static_cast<std::size_t>(service.max_encoder_input))
      return too_long_for_encoder(prompt.size(), service.max_encoder_input);
    prompt.push_back(service.decoder_start);
  }
  if (prompt.size() >= static_cast<std::size_t>(std::max(service.context_length, 0))) {
    return too_long(prompt.size(), service.context_length);
  }
  const auto prompt_tokens = static_cast<Position>(prompt.size());
  const Position room = service.context_length - prompt_tokens;

  PreparedStream stream;
  if (!request.stop.ignore_end_tokens) stream.session.end_tokens = service.end_tokens;
  stream.end_tokens = sorted_union(stream.session.end_tokens, request.stop.stop_token_ids);

  SessionConfig& session = stream.session;
  session.model_name = service.model_name;
  session.prompt_tokens = prompt_tokens;
  session.context_length = service.context_length;
  const auto [wish, source] = wished_maximum(request, service);
  session.max_new_tokens = std::min(wish, room);
  session.max_from_context = wish > room;
  session.max_source = source;
  session.stop = request.stop;
  complete(session.stop, service.low_confidence);
  session.stop.max_new_tokens = session.max_new_tokens;
  if (const auto tags = service.chat_template->reasoning()) {
    session.reasoning = ReasoningMarkers{tags->open, tags->close, in_reasoning};
  }
  session.seed = request.seed ? *request.seed : random_seed();
  session.num_top_logprobs = request.sampling.num_top_logprobs;
  session.credit_window = service.credit_window;
  session.heartbeat_interval = service.heartbeat_interval;

  SamplingParams sampling = make_sampling(request, session.seed, stream.end_tokens);
  session.stop.min_new_tokens = sampling.min_new_tokens;  // one minimum for both
  stream.sampling = std::make_shared<const SamplingParams>(std::move(sampling));
  stream.prompt = std::move(prompt);
  stream.salt = request.salt;
  return stream;
}

std::vector<TokenId> union_of_end_tokens(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  std::vector<TokenId> from_template;
  for (const std::string& text : chat.turn_ends()) {
    const TokenId id = tokenizer.find_special(text);
    if (id >= 0) from_template.push_back(id);
  }
  const std::span<const TokenId> from_tokenizer = tokenizer.end_tokens();
  return sorted_union({from_tokenizer.begin(), from_tokenizer.end()}, from_template);
}

}  // namespace sluice
