// The bodies of the chat and completions API: what is read, and what each fault says.
#include <catch2/catch.hpp>
#include <random>

#include "web/openai/api_request.hpp"

using namespace sluice;
using namespace sluice::web;
using namespace sluice::web::openai;

namespace {

ApiDefaults defaults() {
  ApiDefaults defaults;
  defaults.model = "stub";
  defaults.max_choices = 8;
  return defaults;
}

ApiRequest chat(const std::string& fields) {
  const std::string body = R"({"messages":[{"role":"user","content":"Hi"}])" +
                           (fields.empty() ? "" : "," + fields) + "}";
  INFO(body);
  auto parsed = parse_chat_request(body, defaults());
  if (const auto* error = std::get_if<ApiError>(&parsed)) FAIL(error->message);
  return std::get<ApiRequest>(parsed);
}

ApiError chat_fault(const std::string& body) {
  INFO(body);
  const auto parsed = parse_chat_request(body, defaults());
  REQUIRE(std::holds_alternative<ApiError>(parsed));
  return std::get<ApiError>(parsed);
}

ApiError fault_of(const std::string& fields) {
  return chat_fault(R"({"messages":[{"role":"user","content":"Hi"}],)" + fields + "}");
}

const std::vector<ChatMessage>& messages_of(const ApiRequest& request) {
  return std::get<std::vector<ChatMessage>>(request.prompts.at(0).input);
}

}  // namespace

TEST_CASE("a chat request reads every parameter") {
  const ApiRequest request = chat(
      R"("model":"stub","n":3,"stream":true,"stream_options":{"include_usage":true},
      "logprobs":true,"top_logprobs":2,"temperature":0.5,"top_p":0.5,"top_k":7,"min_p":0.25,
      "presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,"seed":-1,
      "max_completion_tokens":9,"min_tokens":2,"stop":["a","b"],"logit_bias":{"4":-100,"5":1.5},
      "stop_regex":"x+","ignore_eos":true,"time_limit_ms":70,"priority":-3,"salt":"s","user":"u")");
  CHECK(request.chat);
  CHECK(request.n == 3);
  CHECK(request.num_choices() == 3);
  CHECK(request.stream);
  CHECK(request.include_usage);
  CHECK(request.logprobs);
  const GenerateRequest& one = request.prompts.at(0);
  CHECK(one.sampling.num_top_logprobs == 2);
  CHECK(one.sampling.temperature == 0.5F);
  CHECK(one.sampling.top_p == 0.5F);
  CHECK(one.sampling.top_k == 7);
  CHECK(one.sampling.min_p == 0.25F);
  CHECK(one.sampling.presence_penalty == 1.0F);
  CHECK(one.sampling.frequency_penalty == -1.0F);
  CHECK(one.sampling.repetition_penalty == 1.5F);
  CHECK(one.seed == UINT64_MAX);
  CHECK(one.stop.max_new_tokens == 9);
  CHECK(one.stop.min_new_tokens == 2);
  CHECK(one.stop.stop_strings.size() == 2);
  CHECK(one.stop.stop_patterns.size() == 1);
  CHECK(one.stop.ignore_end_tokens);
  CHECK(one.stop.time_limit == std::chrono::milliseconds(70));
  CHECK(one.sampling.logit_bias == std::vector<LogitBias>{{4, -100.0F}, {5, 1.5F}});
  CHECK(one.priority == -3);
  CHECK(one.salt == "s");
}

TEST_CASE("null is as good as absent and content may come in parts") {
  const ApiRequest request = chat(R"("stop":null,"seed":null,"n":null,"tools":null,"model":null)");
  CHECK(request.n == 1);
  CHECK_FALSE(request.prompts[0].seed);
  const auto parts = parse_chat_request(
      R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})",
      defaults());
  CHECK(messages_of(std::get<ApiRequest>(parts))[0].content == "ab");
  CHECK(messages_of(std::get<ApiRequest>(parts))[0].role == "system");
}

TEST_CASE("tools and options go to the template") {
  const auto parsed = parse_chat_request(
      R"({"messages":[{"role":"user","content":"Hi"},
      {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"1"}]},
      {"role":"tool","tool_call_id":"1","name":"f","content":"4"}],
      "tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto",
      "reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":false,"reasoning_effort":"x"}})",
      defaults());
  const auto& request = std::get<ApiRequest>(parsed);
  const std::vector<ChatMessage>& messages = messages_of(request);
  CHECK(messages[1].reasoning_content == "hm");
  CHECK(messages[1].tool_calls == R"([{"id":"1"}])");
  CHECK(messages[2].tool_call_id == "1");
  CHECK(messages[2].name == "f");
  const ChatOptions& chat_options = request.prompts[0].chat;
  CHECK(chat_options.tools == R"([{"type":"function","function":{"name":"f"}}])");
  CHECK(chat_options.template_options == R"({"reasoning_effort":"low","enable_thinking":false})");
  CHECK(
      chat(R"("tools":[{"type":"function"}],"tool_choice":"none")").prompts[0].chat.tools.empty());
  CHECK(chat("").prompts[0].chat.template_options.empty());
}

TEST_CASE("every fault of a chat request names its field") {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {R"("temperature":11)", "temperature"},
      {R"("temperature":"hot")", "temperature"},
      {R"("top_p":0)", "top_p"},
      {R"("n":0)", "n"},
      {R"("n":9)", "n"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":3,"max_completion_tokens":4)", "max_completion_tokens"},
      {R"("stop":5)", "stop"},
      {R"("stop":[""])", "stop[0]"},
      {R"("logit_bias":{"x":1})", "logit_bias"},
      {R"("logit_bias":{"1":101})", "logit_bias"},
      {R"("logit_bias":[1])", "logit_bias"},
      {R"("seed":1.5)", "seed"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("stream_options":{"include_usage":true})", "stream_options"},
      {R"("stream":true,"stream_options":{"x":1})", "stream_options.x"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("modalities":["audio"])", "modalities"},
      {R"("audio":{})", "audio"},
      {R"("function_call":"auto")", "function_call"},
      {R"("tools":{})", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"("priority":1.5)", "priority"},
      {R"("nonsense":1)", "nonsense"},
      {R"("seed":1,"seed":2)", "seed"},
  };
  for (const auto& [fields, name] : faults) {
    INFO(fields);
    const ApiError error = fault_of(fields);
    CHECK(error.status == 400);
    CHECK(error.type == "invalid_request_error");
    CHECK(error.param == name);
    CHECK(error.message.find(name) != std::string::npos);
  }
  CHECK(chat_fault("{}").param == "messages");
  CHECK(chat_fault(R"({"messages":[]})").param == "messages");
  CHECK(chat_fault(R"({"messages":[{"role":"king","content":""}]})").param == "messages[0].role");
  CHECK(chat_fault(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})").param ==
        "messages[0].content[0].type");
  CHECK(chat_fault("[1]").code == "invalid_json");
  CHECK(chat_fault("{").code == "invalid_json");
  const ApiError model = fault_of(R"("model":"gpt-5")");
  CHECK(model.status == 404);
  CHECK(model.code == "model_not_found");
}

TEST_CASE("a completion request takes one prompt or several") {
  const auto parse = [](const std::string& body) {
    return parse_completion_request(body, defaults());
  };
  const auto request =
      std::get<ApiRequest>(parse(R"({"prompt":["a","b"],"n":2,"logprobs":3,"best_of":2})"));
  CHECK_FALSE(request.chat);
  CHECK(request.num_choices() == 4);
  CHECK(request.logprobs);
  CHECK(request.prompts[1].sampling.num_top_logprobs == 3);
  CHECK(std::get<std::string>(request.prompts[1].input) == "b");
  CHECK(std::get<ApiError>(parse(R"({"prompt":[1]})")).param == "prompt");
  CHECK(std::get<ApiError>(parse(R"({"prompt":"a","echo":true})")).param == "echo");
  CHECK(std::get<ApiError>(parse(R"({"prompt":"a","best_of":5})")).param == "best_of");
  CHECK(std::get<ApiError>(parse(R"({"prompt":["a","b","c"],"n":3})")).param == "n");
  CHECK(std::get<ApiError>(parse("{}")).param == "prompt");
}

TEST_CASE("damaged bodies are refused or read but never anything else") {
  const std::string good =
      R"({"messages":[{"role":"user","content":"Hi"}],"n":2,"stop":["x"],"logit_bias":{"1":2}})";
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    std::string body = good;
    for (std::uint64_t k = 0; k <= random() % 3; ++k) {
      body[random() % body.size()] = static_cast<char>(random() % 256);
    }
    const auto parsed = parse_chat_request(body, defaults());
    if (const auto* error = std::get_if<ApiError>(&parsed)) CHECK_FALSE(error->message.empty());
  }
}
