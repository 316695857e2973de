// Changes of a running stream: a new maximum, new stops, a new temperature.
#include <catch2/catch.hpp>

#include "engine/base/error.hpp"
#include "engine/stream/token_pipeline.hpp"
#include "tests/engine/stream/random_text.hpp"
#include "tests/engine/stream/session_fixture.hpp"
#include "tests/support/reference_stop.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

SessionFixture stream_of(std::vector<std::string> tokens, StopOptions stop = {}) {
  SessionConfig config;
  config.prompt_tokens = 10;
  config.context_length = 60;
  config.max_new_tokens = 20;
  config.stop = std::move(stop);
  SessionFixture s(config, std::move(tokens));
  s.start();
  return s;
}

}  // namespace

TEST_CASE("a new maximum goes to the scheduler and ends the stream when it is reached") {
  SessionFixture s = stream_of({"a", "b", "c", "d"});
  s.tokens({0, 1});
  SessionMachine::Output out = s.change({.max_new_tokens = 30});
  CHECK(out.max_new_tokens == 30);
  CHECK_FALSE(out.temperature);
  CHECK(out.events.empty());
  CHECK(s.machine.max_new_tokens() == 30);
  CHECK(s.change({.max_new_tokens = 3}).max_new_tokens == 3);
  s.token(2);
  CHECK(s.ending() == "done:max_new_tokens");
  CHECK(s.text() == "abc");
  CHECK(s.done().position == 3);
}

TEST_CASE("a maximum below or at what was drawn ends the stream at once with all its text") {
  for (const Position maximum : {1, 2}) {
    SessionFixture s = stream_of({"a", "b\n", "c"}, {.stop_strings = {{"\nHuman:"}}});
    s.tokens({0, 1});
    CHECK(s.text() == "ab");
    const SessionMachine::Output out = s.change({.max_new_tokens = maximum});
    CHECK_FALSE(out.max_new_tokens);
    CHECK(s.removed == 1);
    CHECK(s.ending() == "done:max_new_tokens");
    CHECK(s.text() == "ab\n");
    CHECK(s.done().usage.completion_tokens == 2);
    CHECK(s.change({.max_new_tokens = 9}).events.empty());
  }
}

TEST_CASE("a maximum beyond the context is the context") {
  SessionFixture s = stream_of(std::vector<std::string>(60, "a"));
  CHECK(s.change({.max_new_tokens = 1000}).max_new_tokens == 50);
  for (TokenId id = 0; id < 49; ++id) s.token(id);
  CHECK_FALSE(s.ended());
  s.token(49);
  CHECK(s.ending() == "done:context_full");
}

TEST_CASE("a maximum that comes from the context is reported as a full context") {
  for (const bool from_context : {false, true}) {
    SessionConfig config;
    config.prompt_tokens = 8;
    config.context_length = 10;
    config.max_new_tokens = 2;
    config.max_from_context = from_context;
    config.end_tokens = {1};
    SessionFixture s(config, {"a", "b"});
    s.start();
    CHECK(std::get<AcceptedEvent>(s.events[0]).max_new_tokens == 2);
    CHECK(s.machine.max_new_tokens() == 2);
    SessionFixture end(config, {"a", "b"});
    s.tokens({0, 0});
    CHECK(s.ending() == (from_context ? "done:context_full" : "done:max_new_tokens"));
    // A full context is the last rule, so that an end token on the last place is one.
    end.start();
    end.tokens({0, 1});
    CHECK(end.ending() == (from_context ? "done:end_token" : "done:max_new_tokens"));
  }
}

TEST_CASE("held back text that can no longer become a stop is shown at once") {
  SessionFixture s = stream_of({"Hi.\n", "Hu", "man: x"}, {.stop_strings = {{"\nHuman:"}}});
  s.token(0);
  CHECK(s.text() == "Hi.");
  // The token was delivered: its text comes in a piece that is no token.
  s.change({.stop_strings = std::vector<StopString>{}});
  CHECK(s.text() == "Hi.\n");
  CHECK(s.ids() == std::vector<TokenId>{0});
  CHECK(std::get<TokenEvent>(s.events.back()).pieces.at(0).id == kNoToken);
  s.tokens({1, 2});
  CHECK(s.text() == "Hi.\nHuman: x");
  CHECK(s.ids() == std::vector<TokenId>{0, 1, 2});
}

TEST_CASE("tokens that wait are delivered by a change with their own text") {
  SessionFixture s = stream_of({"a\n", "Hu", "m"}, {.stop_strings = {{"\nHuman:"}}});
  s.tokens({0, 1, 2});
  CHECK(s.text() == "a");
  s.change({.stop_strings = std::vector<StopString>{{"mb"}}});
  CHECK(s.text() == "a\nHu");
  CHECK(s.ids() == std::vector<TokenId>{0, 1});
  CHECK(s.machine.held_back_bytes() == 1);
}

TEST_CASE("a stop that is complete in held back text ends the stream at once") {
  SessionFixture s = stream_of({"a\n", "Hu", "m"}, {.stop_strings = {{"\nHuman:"}}});
  s.tokens({0, 1, 2});
  s.change({.stop_strings = std::vector<StopString>{{"Hu"}}});
  CHECK(s.ending() == "done:stop_string");
  CHECK(s.text() == "a\n");
  CHECK(s.done().matched == "Hu");
  CHECK(s.done().position == 2);
  CHECK(s.ids() == std::vector<TokenId>{0, 1, 2});
}

TEST_CASE("text that was shown is no part of a new stop but decides boundaries") {
  SessionFixture s = stream_of({"Hum", "an:", "\n", "b"});
  s.token(0);
  s.change({.stop_strings = std::vector<StopString>{{"Human:"}, {"b", StopBoundary::kLineStart}}});
  s.tokens({1, 2});
  CHECK_FALSE(s.ended());
  s.token(3);
  CHECK(s.ending() == "done:stop_string");
  CHECK(s.text() == "Human:\n");
}

TEST_CASE("a temperature goes to the scheduler only") {
  SessionFixture s = stream_of({"a", "b"});
  s.token(0);
  const SessionMachine::Output out = s.change({.temperature = 0.25F});
  CHECK(out.temperature == 0.25F);
  CHECK_FALSE(out.max_new_tokens);
  CHECK_FALSE(s.ended());
}

TEST_CASE("changes that can not work are refused and change nothing") {
  SessionFixture s = stream_of({"a\n", "Hu", "man:"}, {.stop_strings = {{"\nHuman:"}}});
  s.token(0);
  const std::vector<StreamChanges> wrong = {
      {.max_new_tokens = 0},
      {.max_new_tokens = 1, .stop_strings = std::vector<StopString>{{""}}},
      {.max_new_tokens = 1, .temperature = -1.0F},
      {.max_new_tokens = 1, .temperature = std::numeric_limits<float>::quiet_NaN()},
  };
  for (const StreamChanges& changes : wrong) {
    CHECK_THROWS_AS(s.machine.change(changes, s.now), Error);
    CHECK_THROWS_AS(check_stream_changes(changes), Error);
  }
  CHECK(s.text() == "a");
  s.tokens({1, 2});
  CHECK(s.ending() == "done:stop_string");
}

TEST_CASE("changes while paused take hold as well") {
  SessionFixture s = stream_of({"a\n", "b"}, {.stop_strings = {{"\nHuman:"}}});
  s.token(0);
  s.pause();
  s.change({.stop_strings = std::vector<StopString>{}});
  CHECK(s.text() == "a\n");
  CHECK(s.last_credit == 0);
  CHECK(s.machine.phase() == SessionPhase::kPaused);
}

TEST_CASE("after a change at any token the text is what the plain reference shows") {
  RandomText random(77);
  int stopped = 0;
  int stopped_at_once = 0;
  for (int round = 0; round < 20000; ++round) {
    random.set_narrow(random.chance(2));
    const bool markers = random.chance(3);
    PipelineOptions options;
    options.limits.max_new_tokens = 1000;
    options.stop.stop_strings = random.stop_strings(4, markers);
    if (markers) options.reasoning = ReasoningMarkers{"ab", "ba", random.chance(2)};
    const std::string bytes = random.bytes(1 + random.below(20));
    const std::vector<std::string> tokens = random.split(bytes, 5);
    const StreamChanges changes{.stop_strings = random.stop_strings(4, markers)};
    const std::size_t when = random.below(tokens.size() + 1);
    INFO("round " << round);

    TokenPipeline pipeline(options, std::make_shared<TableTokenizer>(tokens));
    std::string shown;
    std::string taken;
    std::size_t forgotten = 0;
    std::size_t delivered = 0;
    std::optional<Verdict> verdict;
    const auto take = [&](std::vector<TokenPiece> pieces) {
      for (const TokenPiece& piece : pieces) {
        shown += piece.text;
        delivered += piece.id == kNoToken ? 0 : 1;
      }
    };
    const auto agrees = [&] {
      const DecodedText decoded = decode_plainly(taken);
      const ReferenceResult expected =
          find_stop_plainly(decoded.text, *changes.stop_strings, forgotten, options.reasoning);
      std::size_t end = decoded.text.size() - expected.held;
      if (expected.stop) {
        const StopString& string = (*changes.stop_strings)[expected.stop->index];
        end = string.include ? expected.stop->end : expected.stop->begin;
      }
      REQUIRE(shown == decoded.text.substr(0, end));
      REQUIRE(verdict.has_value() == expected.stop.has_value());
      if (verdict) REQUIRE(verdict->position == expected.stop->begin);
    };
    for (std::size_t i = 0; i <= tokens.size() && !verdict; ++i) {
      if (i == when) {
        std::vector<TokenPiece> pieces;
        forgotten = shown.size();
        verdict = pipeline.change(changes, pieces);
        take(std::move(pieces));
        agrees();
        stopped_at_once += verdict ? 1 : 0;
      }
      if (i == tokens.size() || verdict) break;
      std::vector<TokenPiece> pieces;
      taken += tokens[i];
      verdict = pipeline.push({static_cast<TokenId>(i), 0.0F, 1.0F, {}}, false, pieces);
      take(std::move(pieces));
      if (i >= when) agrees();
      if (verdict) REQUIRE(delivered == i + 1);
    }
    stopped += verdict ? 1 : 0;
  }
  CHECK(stopped > 2000);
  CHECK(stopped_at_once > 50);
}
