#include "web/outbound_queue.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace sluice;
using namespace sluice::web;

namespace {

TokenEvent token(std::uint64_t number, const std::string& text) {
  return {number, text, {{static_cast<TokenId>(number), text, -1.0F, {}}}};
}

std::string field(const std::string& json, const char* name) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(json);
  std::string_view text;
  if (parser.parse(padded)[name].get(text) != simdjson::SUCCESS) return {};
  return std::string(text);
}

std::size_t token_count(const std::string& json) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(json);
  simdjson::dom::array tokens;
  if (parser.parse(padded)["tokens"].get(tokens) != simdjson::SUCCESS) return 0;
  return tokens.size();
}

}  // namespace

TEST_CASE("outbound queue joins waiting tokens of one stream and keeps the last number") {
  OutboundQueue queue;
  queue.push(1, "a", token(2, "On"));
  queue.push(1, "a", token(3, "ce"));
  DoneEvent done;
  done.number = 4;
  queue.push(1, "a", done);
  CHECK(queue.size() == 2);

  const auto first = queue.pop();
  REQUIRE(first);
  CHECK(field(first->text, "text") == "Once");
  CHECK(token_count(first->text) == 2);
  CHECK(first->number == 3);
  CHECK_FALSE(first->terminal);
  const auto second = queue.pop();
  REQUIRE(second);
  CHECK(field(second->text, "type") == "done");
  CHECK(second->terminal);
  CHECK_FALSE(queue.pop());
  CHECK(queue.bytes() == 0);
}

TEST_CASE("outbound queue joins across entries of other streams but not across its own") {
  OutboundQueue queue;
  queue.push(1, "a", token(2, "a1"));
  queue.push(2, "b", token(2, "b1"));
  queue.push("control");
  queue.push(1, "a", token(3, "a2"));
  queue.push(1, "a", HeartbeatEvent{3, "decode", 0, 0, 0});
  queue.push(1, "a", token(4, "a3"));
  std::vector<std::string> order;
  while (auto frame = queue.pop()) {
    order.push_back(frame->stream ? field(frame->text, "type") + " " + field(frame->text, "text")
                                  : frame->text);
  }
  CHECK(order ==
        std::vector<std::string>{"token a1a2", "token b1", "control", "heartbeat ", "token a3"});
}

TEST_CASE("outbound queue keeps only the newest of waiting heartbeats") {
  OutboundQueue queue;
  for (int i = 0; i < 1000; ++i) queue.push(1, "a", HeartbeatEvent{1, "prefill", 0, i, 1000});
  CHECK(queue.size() == 1);
  const auto frame = queue.pop();
  REQUIRE(frame);
  CHECK(frame->text.find("\"prefill_done\":999") != std::string::npos);
}

TEST_CASE("outbound queue loses and reorders nothing under random use") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    OutboundQueue queue;
    struct Sent {
      std::string text;
      std::size_t tokens = 0;
      std::uint64_t number = 0;
      bool ended = false;
    };
    std::map<StreamKey, Sent> pushed;
    std::map<StreamKey, Sent> popped;
    std::size_t controls_in = 0;
    std::size_t controls_out = 0;

    const auto pop = [&] {
      const auto frame = queue.pop();
      if (!frame) {
        CHECK(queue.bytes() == 0);
        return false;
      }
      if (!frame->stream) {
        CHECK(frame->text == "c" + std::to_string(controls_out++));
        return true;
      }
      Sent& stream = popped[*frame->stream];
      CHECK_FALSE(stream.ended);
      CHECK(frame->number >= stream.number);  // a heartbeat repeats the number before it
      stream.number = frame->number;
      stream.text += field(frame->text, "text");
      stream.tokens += token_count(frame->text);
      stream.ended = frame->terminal;
      CHECK(field(frame->text, "id") == "s" + std::to_string(*frame->stream));
      return true;
    };

    for (int step = 0; step < 200; ++step) {
      const StreamKey key = 1 + random() % 5;
      Sent& stream = pushed[key];
      const std::string id = "s" + std::to_string(key);
      const auto action = random() % 20;
      if (action < 6) {
        pop();
      } else if (action == 6) {
        queue.push("c" + std::to_string(controls_in++));
      } else if (!stream.ended && action == 7) {
        queue.push(key, id, HeartbeatEvent{stream.number, "decode", 0, 0, 0});
      } else if (!stream.ended && action == 8) {
        stream.ended = true;
        queue.push(key, id, ErrorEvent{++stream.number, "x", "y"});
      } else if (!stream.ended) {
        const std::string text = std::to_string(step) + ";";
        stream.text += text;
        ++stream.tokens;
        queue.push(key, id, token(++stream.number, text));
      }
    }
    while (pop()) {
    }
    CHECK(controls_in == controls_out);
    for (const auto& [key, stream] : pushed) {
      CHECK(popped[key].text == stream.text);
      CHECK(popped[key].tokens == stream.tokens);
      CHECK(popped[key].number == stream.number);
      CHECK(popped[key].ended == stream.ended);
    }
  }
}

TEST_CASE("outbound queue is empty and reusable after clear") {
  OutboundQueue queue;
  queue.push(1, "a", token(2, "x"));
  queue.push("c");
  queue.clear();
  CHECK(queue.empty());
  CHECK(queue.bytes() == 0);
  queue.push(1, "a", token(3, "y"));
  const auto frame = queue.pop();
  REQUIRE(frame);
  CHECK(field(frame->text, "text") == "y");
}
