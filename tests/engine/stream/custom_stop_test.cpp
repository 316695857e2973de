// A rule of the embedding program: when it is asked, what it sees, and what its failure does.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "tests/engine/stream/session_fixture.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr TokenId kEnd = 5;

SessionFixture stream_of(std::vector<std::string> tokens, StopOptions stop) {
  SessionConfig config;
  config.prompt_tokens = 10;
  config.context_length = 1000;
  config.max_new_tokens = 6;
  config.end_tokens = {kEnd};
  config.stop = std::move(stop);
  SessionFixture s(config, std::move(tokens));
  s.start();
  return s;
}

}  // namespace

TEST_CASE("the rule of the caller ends a stream and says why") {
  SessionFixture s = stream_of(
      {"a", "b", "c"}, {.custom = [](const StopView& view) {
        return view.text.ends_with("b") ? std::optional<std::string>("found a b") : std::nullopt;
      }});
  s.tokens({0, 1, 2});
  CHECK(s.ending() == "done:custom");
  CHECK(finish_reason(s.done().rule) == "stop");
  CHECK(s.done().matched == "found a b");
  CHECK(s.done().position == 2);
  CHECK(s.text() == "ab");
}

TEST_CASE("the rule of the caller sees every token with all text and the counts") {
  std::vector<std::string> seen;
  SessionFixture s = stream_of(
      {"Hi\n", "Hu", "mble", "\xF0\x9F", "\x98\x80"},
      {.stop_strings = {{"\nHuman:"}}, .custom = [&](const StopView& view) {
         seen.push_back(std::to_string(view.token.id) + " " + std::string(view.text) + " " +
                        std::to_string(view.held_bytes) + " " + std::to_string(view.num_tokens) +
                        "/" + std::to_string(view.max_new_tokens));
         return std::optional<std::string>();
       }});
  s.tokens({0, 1, 2, 3, 4});
  CHECK(seen == std::vector<std::string>{"0 Hi\n 3 1/6", "1 Hi\nHu 3 2/6", "2 Hi\nHumble 7 3/6",
                                         "3 Hi\nHumble 0 4/6",
                                         "4 Hi\nHumble\xF0\x9F\x98\x80 4 5/6"});
  CHECK_FALSE(s.ended());
}

TEST_CASE("the rule of the caller comes last among the rules about content") {
  const CustomStop always = [](const StopView&) { return std::optional<std::string>("always"); };
  const auto ending = [&](StopOptions stop, const std::vector<TokenId>& ids,
                          std::chrono::milliseconds passed = 0ms) {
    stop.custom = always;
    stop.min_new_tokens = static_cast<Position>(ids.size());
    SessionFixture s = stream_of({"a", "b", "x\n", "d", "e", ""}, std::move(stop));
    s.pass(passed);
    s.tokens(ids);
    return s.ending();
  };
  CHECK(ending({}, {0, 1, 2, 3, 4, 0}) == "done:max_new_tokens");
  CHECK(ending({}, {0, kEnd}) == "done:end_token");
  CHECK(ending({.stop_strings = {{"b"}}}, {0, 1}) == "done:stop_string");
  CHECK(ending({.repetition_ngram = 1, .repetition_times = 2}, {0, 0}) == "done:repetition");
  CHECK(ending({.time_limit = 5ms}, {0, 1}, 10ms) == "done:custom");
  CHECK(ending({}, {0, 1}) == "done:custom");
}

TEST_CASE("before the minimum the answer of the caller is ignored") {
  int calls = 0;
  SessionFixture s = stream_of({"a", "b", "c"}, {.min_new_tokens = 3, .custom = [&](auto&) {
                                                   ++calls;
                                                   return std::optional<std::string>("now");
                                                 }});
  s.tokens({0, 1});
  CHECK(calls == 2);
  CHECK_FALSE(s.ended());
  s.token(2);
  CHECK(s.ending() == "done:custom");
}

TEST_CASE("held back text is shown when the rule of the caller ends the stream or fails") {
  for (const bool fails : {false, true}) {
    SessionFixture s = stream_of(
        {"a\n", "Hu"}, {.stop_strings = {{"\nHuman:"}}, .custom = [&](const StopView& view) {
                          if (view.num_tokens < 2) {
                            return std::optional<std::string>();
                          }
                          if (fails) throw std::runtime_error("no \xFF!");
                          return std::optional<std::string>("x\xFF");
                        }});
    s.tokens({0, 1});
    CHECK(s.text() == "a\nHu");
    CHECK(s.ids() == std::vector<TokenId>{0, 1});
    CHECK(s.removed == 1);
    CHECK(s.ending() == (fails ? "error:stop_rule_failed" : "done:custom"));
    if (fails) {
      CHECK(std::get<ErrorEvent>(s.events.back()).message ==
            "The caller's own stop rule failed: no \uFFFD!");
    } else {
      CHECK(s.done().matched == "x\uFFFD");
    }
  }
}

TEST_CASE("anything that the rule of the caller throws ends its stream only") {
  SessionFixture s = stream_of({"a"}, {.min_new_tokens = 3, .custom = [](const StopView&) {
                                         throw 7;
                                         return std::optional<std::string>();
                                       }});
  SessionFixture neighbour = stream_of({"a"}, {});
  s.token(0);
  neighbour.token(0);
  CHECK(s.ending() == "error:stop_rule_failed");
  CHECK_FALSE(neighbour.ended());
}
