// Stop patterns in a stream of tokens, together with stop strings.
#include <catch2/catch.hpp>

#include "engine/stream/token_pipeline.hpp"
#include "tests/engine/stream/random_text.hpp"
#include "tests/engine/stream/table_tokenizer.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Run {
  std::string text;
  std::vector<std::size_t> shown;  ///< bytes after every token
  std::optional<Verdict> verdict;
};

Run run(const std::vector<std::string>& tokens, StopOptions stop,
        std::optional<ReasoningMarkers> reasoning = {}) {
  TokenPipeline pipeline({.stop = std::move(stop),
                          .end_tokens = {},
                          .limits = {.max_new_tokens = 1000, .room = 0},
                          .reasoning = std::move(reasoning)},
                         std::make_shared<TableTokenizer>(tokens));
  Run out;
  std::vector<TokenPiece> pieces;
  for (std::size_t i = 0; i < tokens.size() && !out.verdict; ++i) {
    out.verdict = pipeline.push({static_cast<TokenId>(i), 0.0F, 1.0F, {}}, false, pieces);
    out.shown.push_back(static_cast<std::size_t>(pipeline.text_bytes()));
  }
  if (!out.verdict) pipeline.finish(pieces);
  for (const TokenPiece& piece : pieces) out.text += piece.text;
  return out;
}

/// A pattern that says the same as a stop string.
StopPattern as_pattern(const StopString& string) {
  StopPattern pattern{string.boundary == StopBoundary::kLineStart ? "^" : "", string.scope,
                      string.include};
  for (const char c : string.text) {
    if (c == '\n') {
      pattern.pattern += "\\n";
    } else {
      pattern.pattern += c;
    }
  }
  return pattern;
}

}  // namespace

TEST_CASE("a pattern ends a stream and reports the text it matched and itself") {
  const Run out = run({"It is 4", "2", "."}, {.stop_patterns = {{"\\d\\d"}}});
  CHECK(out.text == "It is ");
  REQUIRE(out.verdict);
  CHECK(out.verdict->rule == StopRule::kStopString);
  CHECK(out.verdict->matched == "42");
  CHECK(out.verdict->detail == "\\d\\d");
  CHECK(out.verdict->position == 6);
  CHECK(out.shown == std::vector<std::size_t>{6, 6});
}

TEST_CASE("a pattern can include what it matched") {
  const Run out = run(
      {"It is 4", "2."},
      {.stop_patterns = {{.pattern = "\\d\\d", .scope = StopScope::kContent, .include = true}}});
  CHECK(out.text == "It is 42");
}

TEST_CASE("patterns look at the sections of their scope only") {
  const std::vector<std::string> tokens = {"<t>", "a1", "</t>", "b", "2c"};
  const ReasoningMarkers markers{"<t>", "</t>"};
  const auto with = [&](StopScope scope) {
    return run(tokens, {.stop_patterns = {{"\\w\\d", scope}}}, markers).text;
  };
  CHECK(with(StopScope::kContent) == "<t>a1</t>");
  CHECK(with(StopScope::kReasoning) == "<t>");
  CHECK(with(StopScope::kBoth) == "<t>");
  CHECK(run(tokens, {.stop_patterns = {{"\\w\\d", StopScope::kReasoning}}}).text == "<t>a1</t>b2c");
  // Not over a border, and a section begins a line.
  CHECK(run(tokens, {.stop_patterns = {{"1<.*b"}, {"^b"}}}, markers).text == "<t>a1</t>");
}

TEST_CASE("a string and a pattern compete by where they end and then begin") {
  const auto matched = [](StopString string, StopPattern pattern) {
    const Run out = run({"xabcd"}, {.stop_strings = {string}, .stop_patterns = {pattern}});
    return out.verdict->matched + (out.verdict->detail.empty() ? " string" : " pattern");
  };
  CHECK(matched({"bc"}, {"ab+"}) == "ab pattern");
  CHECK(matched({"bc"}, {"a.c"}) == "abc pattern");
  CHECK(matched({"abc"}, {"b."}) == "abc string");
  CHECK(matched({"abc"}, {"a.c"}) == "abc string");
}

TEST_CASE("a pattern that the end of the stream completes does not show") {
  CHECK(run({"a\xE2\x82"}, {.stop_patterns = {{"a\uFFFD"}}}).text.empty());
}

TEST_CASE("new patterns take hold of held back text and keep the strings") {
  TokenPipeline pipeline(
      {.stop = {.stop_strings = {{"END"}}, .stop_patterns = {{"\\n+Q"}}},
       .end_tokens = {},
       .limits = {.max_new_tokens = 1000, .room = 0},
       .reasoning = {}},
      std::make_shared<TableTokenizer>(std::vector<std::string>{"a\n\n", "b\n\n", "EN", "D"}));
  std::vector<TokenPiece> pieces;
  CHECK_FALSE(pipeline.push({0, 0.0F, 1.0F, {}}, false, pieces));
  CHECK(pipeline.text_bytes() == 1);
  CHECK_FALSE(
      pipeline.change({.stop_patterns = std::vector<StopPattern>{{"\\n\\nb\\n\\nc"}}}, pieces));
  CHECK(pipeline.text_bytes() == 1);
  CHECK_FALSE(pipeline.push({1, 0.0F, 1.0F, {}}, false, pieces));
  CHECK(pipeline.text_bytes() == 1);
  CHECK_FALSE(pipeline.change({.stop_patterns = std::vector<StopPattern>{}}, pieces));
  CHECK(pipeline.text_bytes() == 6);
  CHECK_FALSE(pipeline.push({2, 0.0F, 1.0F, {}}, false, pieces));
  CHECK(pipeline.push({3, 0.0F, 1.0F, {}}, false, pieces)->matched == "END");
}

TEST_CASE("patterns without operators do the same as stop strings") {
  RandomText random(63);
  int stopped = 0;
  for (int round = 0; round < 10000; ++round) {
    random.set_narrow(random.chance(2));
    StopOptions strings;
    strings.stop_strings = random.stop_strings(5, true);
    StopOptions patterns;
    StopOptions mixed;
    for (StopString& string : strings.stop_strings) {
      if (string.boundary == StopBoundary::kAfterSpace) string.boundary = StopBoundary::kAnywhere;
      patterns.stop_patterns.push_back(as_pattern(string));
    }
    // Strings win over patterns, so that the first half must be strings.
    const std::size_t half = random.below(strings.stop_strings.size() + 1);
    for (std::size_t i = 0; i < strings.stop_strings.size(); ++i) {
      if (i < half) mixed.stop_strings.push_back(strings.stop_strings[i]);
      if (i >= half) mixed.stop_patterns.push_back(patterns.stop_patterns[i]);
    }
    const std::vector<std::string> tokens = random.split(random.bytes(random.below(20)), 5);
    std::optional<ReasoningMarkers> markers;
    if (random.chance(2)) markers = ReasoningMarkers{"ab", "ba", random.chance(2)};
    INFO("round " << round);
    const Run expected = run(tokens, strings, markers);
    for (const StopOptions& other : {patterns, mixed}) {
      const Run out = run(tokens, other, markers);
      REQUIRE(out.text == expected.text);
      REQUIRE(out.shown == expected.shown);
      REQUIRE(out.verdict.has_value() == expected.verdict.has_value());
      if (!out.verdict) continue;
      REQUIRE(out.verdict->matched == expected.verdict->matched);
      REQUIRE(out.verdict->position == expected.verdict->position);
    }
    stopped += expected.verdict ? 1 : 0;
  }
  CHECK(stopped > 1000);
}
