// The chat and completions API over real sockets on a scripted engine: streams and whole answers
// agree, clients that leave are noticed, errors have their status.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "actors/engine.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"
#include "tests/web/clients.hpp"
#include "web/server.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;
using simdjson::dom::element;

struct Service {
  explicit Service(const ScriptedEngineOptions& options = {})
      : engine(scripted_engine(options)), server(engine, any_port()) {
    server.start();
  }
  static web::ServerOptions any_port() {
    web::ServerOptions options;
    options.port = 0;
    return options;
  }
  HttpAnswer post(const std::string& path, const std::string& body) const {
    return http_request(server.port(), "POST", path, "Content-Type: application/json\r\n", body);
  }
  Engine engine;
  web::Server server;
};

struct Answer {
  std::string text, finish, rule, logprobs;
  bool operator==(const Answer&) const = default;
};

struct Whole {
  std::vector<Answer> answers;
  std::string usage;
};

std::string string_in(const element& object, const char* name) {
  std::string_view value;
  return object[name].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

std::string logprobs_in(const element& choice, bool chat) {
  element logprobs;
  if (choice["logprobs"].get(logprobs) != simdjson::SUCCESS || logprobs.is_null()) return {};
  std::string text;
  for (const element token : logprobs[chat ? "content" : "tokens"].get_array()) {
    text += simdjson::minify(token);
  }
  return text;
}

Whole read_whole(const HttpAnswer& answer, bool chat) {
  INFO(answer.body);
  REQUIRE(answer.status == 200);
  simdjson::dom::parser parser;
  const element root = parser.parse(answer.body);
  Whole whole;
  for (const element choice : root["choices"].get_array()) {
    whole.answers.push_back(
        {chat ? string_in(choice["message"].value(), "content") : string_in(choice, "text"),
         string_in(choice, "finish_reason"), string_in(choice, "stop_rule"),
         logprobs_in(choice, chat)});
  }
  whole.usage = simdjson::minify(root["usage"].value());
  return whole;
}

Whole read_stream(const HttpAnswer& answer, bool chat) {
  REQUIRE(answer.status == 200);
  REQUIRE(answer.headers.at("content-type") == "text/event-stream; charset=utf-8");
  const std::string& body = answer.body;
  INFO(body);
  Whole whole;
  bool done = false;
  std::size_t at = 0;
  simdjson::dom::parser parser;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    REQUIRE(end != std::string::npos);
    const std::string line = body.substr(at, end - at);
    at = end + 2;
    if (line.starts_with(":")) continue;
    REQUIRE(line.starts_with("data: "));
    REQUIRE_FALSE(done);
    done = line == "data: [DONE]";
    if (done) continue;
    const element root = parser.parse(line.substr(6));
    element usage;
    if (root["usage"].get(usage) == simdjson::SUCCESS && !usage.is_null()) {
      whole.usage = simdjson::minify(usage);
    }
    for (const element choice : root["choices"].get_array()) {
      const std::uint64_t index = choice["index"].get_uint64();
      if (whole.answers.size() <= index) whole.answers.resize(index + 1);
      Answer& to = whole.answers[index];
      CHECK(to.finish.empty());
      to.text += chat ? string_in(choice["delta"].value(), "content") : string_in(choice, "text");
      to.logprobs += logprobs_in(choice, chat);
      to.finish = string_in(choice, "finish_reason");
      to.rule = string_in(choice, "stop_rule");
    }
  }
  CHECK(done);
  return whole;
}

}  // namespace

TEST_CASE("streamed and whole answers of the chat api agree", "[openai]") {
  ScriptedEngineOptions options;
  options.next_token = ending_script(80);
  options.config.prefix_cache = false;  // else the second has more of its prompt cached
  Service service(options);
  std::mt19937_64 random(3);
  std::map<std::string, int> rules;
  for (int round = 0; round < 60; ++round) {
    const bool chat = random() % 2 == 0;
    const bool logprobs = random() % 2 == 0;
    std::string body =
        chat ? R"({"messages":[{"role":"user","content":"round )" : R"({"prompt":"round )";
    body += std::to_string(round) + (chat ? R"("}])" : "\"");
    body += R"(,"seed":5,"max_tokens":)" + std::to_string(1 + random() % 120);
    body += R"(,"n":)" + std::to_string(1 + random() % 3);
    if (random() % 2 == 0) body += R"(,"stop":["ab","q","zz"])";
    if (logprobs) body += chat ? R"(,"logprobs":true,"top_logprobs":2)" : R"(,"logprobs":2)";
    const std::string path = chat ? "/v1/chat/completions" : "/v1/completions";
    const Whole whole = read_whole(service.post(path, body + "}"), chat);
    const Whole streamed = read_stream(
        service.post(path, body + R"(,"stream":true,"stream_options":{"include_usage":true}})"),
        chat);
    INFO(body);
    CHECK(whole.answers == streamed.answers);
    CHECK(whole.usage == streamed.usage);
    for (const Answer& answer : whole.answers) {
      if (!logprobs) CHECK(answer.logprobs.empty());
      if (logprobs && !answer.text.empty()) CHECK_FALSE(answer.logprobs.empty());
      ++rules[answer.rule];
    }
  }
  CHECK(rules["max_new_tokens"] > 5);
  CHECK(rules["end_token"] > 5);
  CHECK(rules["stop_string"] > 5);
  CHECK(eventually([&] { return service.engine.stats().sessions == 0; }));
}

TEST_CASE("several answers of the chat api compute their prompt once", "[openai]") {
  ScriptedEngineOptions options;
  options.config.prefix_cache = false;
  options.config.scheduler.prefill_chunk = 16;
  for (const bool stream : {false, true}) {
    Service service(options);
    const std::string prompt(201, 'x');  // 202 tokens with the start token
    const std::string body = R"({"prompt":[")" + prompt + R"(","other"],"n":4,"max_tokens":20)" +
                             (stream ? R"(,"stream":true})" : "}");
    const HttpAnswer answer = service.post("/v1/completions", body);
    const Whole whole = stream ? read_stream(answer, false) : read_whole(answer, false);
    CHECK(whole.answers.size() == 8);
    REQUIRE(eventually([&] { return service.engine.stats().kv.used == 0; }));
    // Each of the others computes the last token of its prompt.
    CHECK(service.engine.stats().scheduler.prompt_tokens == 202 + 3 + 6 + 3);
    CHECK(service.engine.stats().kv.copies > 0);
  }
}

TEST_CASE("comments keep a silent stream of the chat api alive", "[openai]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::milliseconds(15);
  options.config.heartbeat_interval = std::chrono::milliseconds(20);
  options.config.scheduler.prefill_chunk = 8;
  Service service(options);
  const std::string body =
      R"({"prompt":")" + std::string(160, 'x') + R"(","max_tokens":2,"stream":true})";
  const HttpAnswer answer = service.post("/v1/completions", body);
  CHECK(read_stream(answer, false).answers.size() == 1);
  const std::size_t first_data = answer.body.find("data: ");
  const std::size_t first_comment = answer.body.find(": prefill ");
  REQUIRE(first_comment != std::string::npos);
  CHECK(first_comment < first_data);
  CHECK(answer.body.find("/161\n\n", first_comment) != std::string::npos);
  // A whole answer has no room for them.
  const HttpAnswer whole = service.post(
      "/v1/completions", R"({"prompt":")" + std::string(160, 'y') + R"(","max_tokens":2})");
  CHECK(whole.body.starts_with("{"));
}

TEST_CASE("reasoning is told from content in whole and streamed chat answers", "[openai]") {
  struct ThinkingTemplate final : ChatTemplate {
    RenderedPrompt render(std::span<const ChatMessage>, bool) const override { return {"p", {}}; }
    std::optional<ReasoningTags> reasoning() const override { return ReasoningTags{"<t>", "</t>"}; }
    std::vector<std::string> turn_ends() const override { return {"</s>"}; }
    std::string description() const override { return "thinks"; }
  };
  ScriptedEngineOptions options;
  options.next_token = repeating_script("<t>hm, so</t>Yes <b.", 2);
  PreparedEngine prepared = scripted_engine(options);
  prepared.chat_template = std::make_shared<ThinkingTemplate>();
  Engine engine(std::move(prepared));
  web::Server server(engine, Service::any_port());
  server.start();
  const std::string body = R"({"messages":[{"role":"user","content":"x"}],"max_tokens":19)";
  const auto post = [&](const std::string& path, const std::string& text) {
    return http_request(server.port(), "POST", path, "", text).body;
  };
  const std::string whole = post("/v1/chat/completions", body + "}");
  INFO(whole);
  CHECK(whole.find(R"("content":"Yes <b","refusal":null,"reasoning_content":"hm, so")") !=
        std::string::npos);
  CHECK(whole.find(R"("reasoning_tokens":11)") != std::string::npos);
  const std::string streamed = post("/v1/chat/completions", body + R"(,"stream":true})");
  std::string content;
  std::string reasoning;
  simdjson::dom::parser parser;
  for (std::size_t at = streamed.find("data: {"); at != std::string::npos;
       at = streamed.find("data: {", at + 1)) {
    const std::string line = streamed.substr(at + 6, streamed.find('\n', at) - at - 6);
    const element delta = parser.parse(line)["choices"].at(0)["delta"];
    content += string_in(delta, "content");
    reasoning += string_in(delta, "reasoning_content");
  }
  CHECK(content == "Yes <b");
  CHECK(reasoning == "hm, so");
  const std::string plain = post("/v1/completions", R"({"prompt":"p","max_tokens":19})");
  CHECK(plain.find("<t>hm, so</t>Yes <b") != std::string::npos);
}

TEST_CASE("errors of the chat api have their status and shape", "[openai]") {
  Service service;
  const auto status = [&](const std::string& body) {
    const HttpAnswer answer = service.post("/v1/chat/completions", body);
    simdjson::dom::parser parser;
    INFO(answer.body);
    const element error = parser.parse(answer.body)["error"];
    CHECK_FALSE(string_in(error, "message").empty());
    CHECK_FALSE(string_in(error, "type").empty());
    return std::to_string(answer.status) + " " + string_in(error, "param") + " " +
           string_in(error, "code");
  };
  CHECK(status("no") == "400  invalid_json");
  CHECK(status(R"({"messages":[{"role":"user","content":"x"}],"n":0})") == "400 n ");
  const std::string longer(600, 'x');
  for (const char* stream : {"false", "true"}) {
    CHECK(status(R"({"messages":[{"role":"user","content":")" + longer + R"("}],"stream":)" +
                 stream + "}") == "400 messages context_length_exceeded");
  }
  CHECK(http_request(service.server.port(), "GET", "/v1/chat/completions").status == 405);
}

TEST_CASE("a client of the chat api that leaves ends its streams", "[openai]") {
  for (const bool stream : {false, true}) {
    ScriptedEngineOptions options;
    options.per_step = std::chrono::milliseconds(1);
    options.context = 100000;
    options.num_blocks = 40000;
    Service service(options);
    {
      const std::string body =
          std::string(R"({"prompt":"endless","max_tokens":90000,"n":3,"stream":)") +
          (stream ? "true" : "false") + "}";
      RawClient client(service.server.port());
      client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
      REQUIRE(eventually([&] { return service.engine.stats().scheduler.generated_tokens > 20; }));
    }
    REQUIRE(eventually([&] { return service.engine.stats().sessions == 0; }));
    CHECK(eventually([&] { return service.engine.stats().kv.used == 0; }));
  }
}

TEST_CASE("several requests share one connection of the chat api", "[openai]") {
  Service service;
  std::string requests;
  for (int i = 0; i < 4; ++i) {
    const std::string body = R"({"prompt":"again","max_tokens":5,"temperature":0})";
    requests += "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" +
                std::string(i == 3 ? "Connection: close\r\n" : "") +
                "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  const auto answers = http_exchange(service.server.port(), requests, {false, false, false, false});
  REQUIRE(answers.size() == 4);
  for (const HttpAnswer& answer : answers) {
    CHECK(read_whole(answer, false).answers == read_whole(answers[0], false).answers);
  }
}

TEST_CASE("a slow reader of the chat api holds its own streams back", "[openai]") {
  ScriptedEngineOptions options;
  options.context = 200000;
  options.num_blocks = 60000;
  Service service(options);
  const std::string body = R"({"prompt":"endless","max_tokens":150000,"stream":true})";
  RawClient client(service.server.port(), 4096);
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body);
  std::uint64_t before = 0;
  REQUIRE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const std::uint64_t now = service.engine.stats().scheduler.generated_tokens;
    return std::exchange(before, now) == now && now > 0;
  }));
  CHECK(before < 100000);
  const HttpAnswer other = service.post("/v1/completions", R"({"prompt":"x","max_tokens":30})");
  CHECK(other.status == 200);
}

TEST_CASE("texts and tokens can be looked at", "[openai]") {
  Service service;
  CHECK(service.post("/tokenize", R"({"prompt":"Hi"})").body ==
        R"({"count":3,"max_model_len":512,"tokens":[256,72,105]})");
  CHECK(service.post("/tokenize", R"({"prompt":"Hi","add_special_tokens":false})").body ==
        R"({"count":2,"max_model_len":512,"tokens":[72,105]})");
  CHECK(service.post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})").status == 200);
  CHECK(service.post("/detokenize", R"({"tokens":[72,105]})").body == R"({"prompt":"Hi"})");
  CHECK(service.post("/detokenize", R"({"tokens":[9999]})").status == 400);
  CHECK(service.post("/tokenize", R"({})").status == 400);
}
