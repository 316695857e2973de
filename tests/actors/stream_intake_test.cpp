// Every check on a request, and what a sound one becomes.
#include "actors/stream_intake.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <variant>

#include "tests/support/scripted_engine.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

ServiceContext service_of(Position context_length) {
  ServiceContext service;
  service.model_name = "Scripted";
  service.tokenizer = std::make_shared<ByteTokenizer>();
  service.chat_template = std::make_shared<LineTemplate>();
  service.context_length = context_length;
  service.default_max_new_tokens = 20;
  service.end_tokens = {ByteTokenizer::kEos};
  return service;
}

GenerateRequest sound_request() {
  GenerateRequest request;
  request.input = "abc";
  return request;
}

PreparedStream accepted(const GenerateRequest& request, Position context_length = 512) {
  auto result = prepare_stream(request, service_of(context_length));
  if (const auto* error = std::get_if<IntakeError>(&result)) FAIL(error->message);
  return std::get<PreparedStream>(std::move(result));
}

IntakeError refused(const GenerateRequest& request, Position context_length = 512) {
  auto result = prepare_stream(request, service_of(context_length));
  REQUIRE(std::holds_alternative<IntakeError>(result));
  return std::get<IntakeError>(result);
}

TEST_CASE("a raw prompt gets the start token once", "[intake]") {
  const PreparedStream stream = accepted(sound_request());
  CHECK(stream.prompt == std::vector<TokenId>{ByteTokenizer::kBos, 'a', 'b', 'c'});
  CHECK(stream.session.prompt_tokens == 4);
  CHECK(stream.session.max_new_tokens == 20);
  CHECK(stream.end_tokens == std::vector<TokenId>{ByteTokenizer::kEos});
}

TEST_CASE("a template that writes the start token gets no second one", "[intake]") {
  struct StartingTemplate final : ChatTemplate {
    RenderedPrompt render(std::span<const ChatMessage>, bool) const override {
      return {"<s>a", {}};
    }
    std::vector<std::string> turn_ends() const override { return {}; }
    std::string description() const override { return "starting"; }
  };
  ServiceContext service = service_of(64);
  service.chat_template = std::make_shared<StartingTemplate>();
  GenerateRequest request;
  request.input = std::vector<ChatMessage>{{"user", "x"}};
  const auto stream = std::get<PreparedStream>(prepare_stream(request, service));
  CHECK(stream.prompt.size() == 4);  // this tokenizer has no special text: four plain bytes
  CHECK(stream.prompt.front() == '<');
}

TEST_CASE("the session learns how the model marks its reasoning", "[intake]") {
  struct ThinkingTemplate final : ChatTemplate {
    RenderedPrompt render(std::span<const ChatMessage> messages, bool) const override {
      return {messages.front().content, {}};
    }
    RenderedPrompt render_chat(std::span<const ChatMessage> messages,
                               const ChatOptions& options) const override {
      return {messages.front().content + options.tools, {}};
    }
    std::optional<ReasoningTags> reasoning() const override {
      return ReasoningTags{"<think>", "</think>"};
    }
    std::vector<std::string> turn_ends() const override { return {}; }
    std::string description() const override { return "thinking"; }
  };
  ServiceContext service = service_of(64);
  GenerateRequest request;
  request.input = std::vector<ChatMessage>{{"user", "<think>"}};
  const auto reasoning = [&] {
    return std::get<PreparedStream>(prepare_stream(request, service)).session.reasoning;
  };
  CHECK_FALSE(reasoning());
  service.chat_template = std::make_shared<ThinkingTemplate>();
  CHECK(reasoning() == ReasoningMarkers{"<think>", "</think>", true});
  request.chat.tools = "[]";
  CHECK(reasoning() == ReasoningMarkers{"<think>", "</think>", false});
  request.input = "raw <think>\n";
  CHECK(reasoning() == ReasoningMarkers{"<think>", "</think>", true});
}

TEST_CASE("the maximum is the smallest of wish and room", "[intake]") {
  GenerateRequest request = sound_request();
  CHECK(accepted(request, 10).session.max_new_tokens == 6);
  request.stop.max_new_tokens = 5;
  CHECK(accepted(request, 10).session.max_new_tokens == 5);
  request.stop.max_new_tokens = 7;
  CHECK(accepted(request, 10).session.max_new_tokens == 6);
  CHECK(accepted(request, 5).session.max_new_tokens == 1);
  const IntakeError error = refused(request, 4);
  CHECK(error.code == "prompt_too_long");
  CHECK(error.message == "The prompt has 4 tokens; this model takes at most 3 and one of output.");
}

TEST_CASE("a minimum bans the end tokens in the sampler and binds the machine", "[intake]") {
  GenerateRequest request = sound_request();
  request.stop.min_new_tokens = 8;
  request.stop.stop_token_ids = {'z', 'y'};
  const PreparedStream stream = accepted(request);
  CHECK(stream.sampling->min_new_tokens == 8);
  CHECK(stream.sampling->banned_before_min == std::vector<TokenId>{'y', 'z', ByteTokenizer::kEos});
  CHECK(stream.session.stop.min_new_tokens == 8);
  CHECK(stream.end_tokens == stream.sampling->banned_before_min);
  CHECK(accepted(sound_request()).sampling->banned_before_min.empty());
}

TEST_CASE("a maximum that the context sets is known as such", "[intake]") {
  GenerateRequest request = sound_request();
  request.stop.max_new_tokens = 6;
  CHECK_FALSE(accepted(request, 10).session.max_from_context);
  request.stop.max_new_tokens = 7;
  CHECK(accepted(request, 10).session.max_from_context);
  request.stop.max_new_tokens.reset();
  CHECK(accepted(request, 10).session.max_from_context);
  CHECK_FALSE(accepted(request, 24).session.max_from_context);
}

TEST_CASE("half a rule of low confidence is completed by the model", "[intake]") {
  ServiceContext service = service_of(64);
  service.low_confidence = {.min_confidence = 0.125F, .patience = 7};
  const auto stop_of = [&](const GenerateRequest& request) {
    return std::get<PreparedStream>(prepare_stream(request, service)).session.stop;
  };
  GenerateRequest request = sound_request();
  CHECK(stop_of(request).patience == 0);  // off
  request.stop.min_confidence = 0.5F;
  CHECK(stop_of(request).min_confidence == 0.5F);
  CHECK(stop_of(request).patience == 7);
  request.stop.min_confidence = 0.0F;
  request.stop.patience = 3;
  CHECK(stop_of(request).min_confidence == 0.125F);
  CHECK(stop_of(request).patience == 3);
}

TEST_CASE("ignored end tokens end nothing and wait for nothing", "[intake]") {
  GenerateRequest request = sound_request();
  request.stop.ignore_end_tokens = true;
  const PreparedStream stream = accepted(request);
  CHECK(stream.session.end_tokens.empty());
  CHECK(stream.end_tokens.empty());
}

TEST_CASE("a seed is kept or drawn anew", "[intake]") {
  GenerateRequest request = sound_request();
  request.seed = 42;
  CHECK(accepted(request).session.seed == 42);
  CHECK(accepted(request).sampling->seed == 42);
  std::set<std::uint64_t> drawn;
  for (int i = 0; i < 20; ++i) drawn.insert(accepted(sound_request()).sampling->seed);
  CHECK(drawn.size() == 20);
}

TEST_CASE("what can never work is refused with a sentence that names it", "[intake]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<std::string, std::function<void(GenerateRequest&)>>> faults = {
      {"temperature", [](auto& r) { r.sampling.temperature = -0.1F; }},
      {"temperature", [=](auto& r) { r.sampling.temperature = nan; }},
      {"top_k", [](auto& r) { r.sampling.top_k = -1; }},
      {"top_p", [](auto& r) { r.sampling.top_p = 0.0F; }},
      {"top_p", [](auto& r) { r.sampling.top_p = 1.5F; }},
      {"top_p", [=](auto& r) { r.sampling.top_p = nan; }},
      {"min_p", [](auto& r) { r.sampling.min_p = 2.0F; }},
      {"repetition_penalty", [](auto& r) { r.sampling.repetition_penalty = 0.0F; }},
      {"presence_penalty", [](auto& r) { r.sampling.presence_penalty = 3.0F; }},
      {"frequency_penalty", [=](auto& r) { r.sampling.frequency_penalty = nan; }},
      {"top_logprobs", [](auto& r) { r.sampling.num_top_logprobs = 21; }},
      {"logit_bias",
       [](auto& r) {
         r.sampling.logit_bias = {{258, 1.0F}};
       }},
      {"logit_bias",
       [=](auto& r) {
         r.sampling.logit_bias = {{1, nan}};
       }},
      {"logit_bias", [](auto& r) { r.sampling.logit_bias.resize(2000); }},
      {"banned_before_min", [](auto& r) { r.sampling.banned_before_min = {-1}; }},
      {"max_tokens", [](auto& r) { r.stop.max_new_tokens = 0; }},
      {"min_tokens", [](auto& r) { r.stop.min_new_tokens = -1; }},
      {"min_tokens", [](auto& r) { r.stop.max_new_tokens = 3, r.stop.min_new_tokens = 4; }},
      {"stop_token_ids",
       [](auto& r) {
         r.stop.stop_token_ids = {1, 999};
       }},
      {"top string", [](auto& r) { r.stop.stop_strings = {{.text = ""}}; }},
      {"top string", [](auto& r) { r.stop.stop_strings = {{.text = std::string(1025, 'x')}}; }},
      {"top string", [](auto& r) { r.stop.stop_strings = {{.text = "\xff"}}; }},
      {"top string", [](auto& r) { r.stop.stop_strings.assign(65, {.text = "x"}); }},
      {"min_confidence", [](auto& r) { r.stop.min_confidence = 1.5F; }},
      {"patience", [](auto& r) { r.stop.patience = -1; }},
      {"repetition_ngram", [](auto& r) { r.stop.repetition_ngram = -2; }},
      {"repetition_times", [](auto& r) { r.stop.repetition_times = 5000; }},
      {"time_limit_ms", [](auto& r) { r.stop.time_limit = std::chrono::milliseconds(-1); }},
      {"time_limit_ms", [](auto& r) { r.stop.time_limit = std::chrono::milliseconds::max(); }},
      {"salt", [](auto& r) { r.salt.assign(2000, 's'); }},
      {"empty", [](auto& r) { r.input = std::string(); }},
      {"messages", [](auto& r) { r.input = std::vector<ChatMessage>{}; }},
      {"role",
       [](auto& r) {
         r.input = std::vector<ChatMessage>{{"wizard", "x"}};
       }},
  };
  for (const auto& [word, spoil] : faults) {
    GenerateRequest request = sound_request();
    spoil(request);
    const IntakeError error = refused(request);
    CAPTURE(word, error.message);
    CHECK(error.code == "invalid_request");
    CHECK(error.message.find(word) != std::string::npos);
    CHECK(error.message.ends_with('.'));
  }
}

TEST_CASE("the limits themselves are allowed", "[intake]") {
  GenerateRequest request = sound_request();
  request.sampling.temperature = 0.0F;
  request.sampling.top_p = 1.0F;
  request.sampling.min_p = 1.0F;
  request.sampling.num_top_logprobs = 20;
  request.sampling.presence_penalty = -2.0F;
  request.stop.max_new_tokens = std::numeric_limits<Position>::max();
  request.stop.stop_strings.assign(64, {.text = std::string(1024, 'x')});
  request.stop.stop_token_ids = {0, 257};
  CHECK(accepted(request).session.max_new_tokens == 508);
}

TEST_CASE("end tokens are the union of tokenizer and template", "[intake]") {
  struct TwoEnds final : ChatTemplate {
    RenderedPrompt render(std::span<const ChatMessage>, bool) const override { return {}; }
    std::vector<std::string> turn_ends() const override { return {"<s>", "</s>", "<none>"}; }
    std::string description() const override { return "two ends"; }
  };
  CHECK(union_of_end_tokens(ByteTokenizer{}, TwoEnds{}) ==
        std::vector<TokenId>{ByteTokenizer::kBos, ByteTokenizer::kEos});
}

}  // namespace
