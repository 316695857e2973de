#include "web/event_json.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>
#include <random>
#include <string>

using namespace sluice;
using namespace sluice::web;

TEST_CASE("events are written as the protocol shows them") {
  CHECK(event_json("a", AcceptedEvent{1, "m", 17, 512, 1024, 81985529216486895U}) ==
        R"({"type":"accepted","id":"a","n":1,"model":"m","prompt_tokens":17,"max_tokens":512,)"
        R"("max_tokens_from":"request","context_length":1024,"seed":81985529216486895})");
  CHECK(event_json("a", HeartbeatEvent{1, "prefill", 2, 256, 900}) ==
        R"({"type":"heartbeat","id":"a","n":1,"phase":"prefill","queue_position":2,)"
        R"("prefill_done":256,"prefill_total":900})");
  CHECK(event_json("a", TokenEvent{2, "Once", {{402, "Once", -0.12F, {}}}}) ==
        R"({"type":"token","id":"a","n":2,"text":"Once",)"
        R"("tokens":[{"id":402,"text":"Once","logprob":-0.12}]})");
  CHECK(event_json("a", TokenEvent{2, "x", {{1, "x", -1.5F, {{1, -1.5F}, {2, -3.0F}}}}}) ==
        R"({"type":"token","id":"a","n":2,"text":"x","tokens":[{"id":1,"text":"x",)"
        R"("logprob":-1.5,"top":[{"id":1,"logprob":-1.5},{"id":2,"logprob":-3}]}]})");
  CHECK(event_json("a", ErrorEvent{2, "queue_full", "The queue is full."}) ==
        R"({"type":"error","id":"a","n":2,"code":"queue_full","message":"The queue is full."})");

  DoneEvent done;
  done.number = 120;
  done.rule = StopRule::kEndToken;
  done.matched = "<|im_end|>";
  done.matched_token = 2;
  done.position = 512;
  done.usage = {17, 4, 118};
  done.timing = {std::chrono::microseconds(100), std::chrono::microseconds(4200),
                 std::chrono::microseconds(310000), 381.5};
  CHECK(event_json("a", done) ==
        R"({"type":"done","id":"a","n":120,"reason":"stop","rule":"end_token",)"
        R"("matched":"<|im_end|>","matched_token":2,"position":512,"detail":"",)"
        R"("usage":{"prompt_tokens":17,"cached_tokens":4,"completion_tokens":118},)"
        R"("timing":{"queued_ms":0.1,"ttft_ms":4.2,"total_ms":310,"tokens_per_second":381.5}})");
}

TEST_CASE("an error of no stream has no id and no number") {
  CHECK(error_json("invalid_json", "No.") ==
        R"({"type":"error","code":"invalid_json","message":"No."})");
}

TEST_CASE("hello says what is served") {
  ServiceInfo info;
  info.model_name = "Demo";
  info.context_length = 512;
  info.default_sampling.temperature = 0.7F;
  info.default_sampling.top_p = 0.95F;
  CHECK(hello_json(info, {.tokens = 128}, std::chrono::milliseconds(300000)) ==
        R"({"type":"hello","protocol":"sluice.v1","model":"Demo","context_length":512,)"
        R"("max_tokens_default":128,"max_keep_ms":300000,)"
        R"("sampling":{"temperature":0.7,"top_p":0.95,"top_k":0,"min_p":0}})");
}

TEST_CASE("events with random bytes are valid JSON on one line") {
  std::mt19937 random(3);
  const auto bytes = [&] {
    std::string text(random() % 40, '\0');
    for (char& c : text) c = static_cast<char>(random() % 256);
    return text;
  };
  simdjson::dom::parser parser;
  for (int round = 0; round < 2000; ++round) {
    DoneEvent done;
    done.matched = bytes();
    done.detail = bytes();
    const Event events[] = {TokenEvent{1, bytes(), {{1, bytes(), -1.0F, {}}}},
                            ErrorEvent{1, bytes(), bytes()}, AcceptedEvent{1, bytes(), 1, 1, 1, 1},
                            HeartbeatEvent{1, bytes(), 0, 0, 0}, done};
    const std::string id = bytes();
    for (const Event& event : events) {
      const std::string json = event_json(id, event);
      const simdjson::padded_string padded(json);
      std::string_view type;
      REQUIRE(parser.parse(padded)["type"].get(type) == simdjson::SUCCESS);
      CHECK(json.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("the estimate of a token frame is near its length") {
  TokenEvent event{123456, "", {}};
  for (int i = 0; i < 20; ++i) {
    TokenPiece piece{30000 + i, " word", -1.2345678F, {}};
    for (int k = 0; k < 5; ++k) piece.top.push_back({k, -2.3456789F});
    event.text += piece.text;
    event.pieces.push_back(piece);
  }
  const auto real = static_cast<double>(event_json("stream", event).size());
  const auto estimate = static_cast<double>(estimated_json_bytes(event));
  CHECK(estimate > 0.7 * real);
  CHECK(estimate < 1.5 * real);
}
