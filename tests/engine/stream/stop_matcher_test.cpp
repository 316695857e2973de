#include "engine/stream/stop_matcher.hpp"

#include <catch2/catch.hpp>

#include "engine/base/error.hpp"
#include "engine/stream/stop_automaton.hpp"
#include "tests/engine/stream/random_text.hpp"
#include "tests/support/reference_stop.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

StopMatcher matcher_for(std::vector<StopString> strings) {
  return StopMatcher(strings);
}

/// The text of the match that feeding `text` in one piece gives; "-" for none.
std::string match_in(const std::vector<StopString>& strings, const std::string& text) {
  StopMatcher matcher(strings);
  const auto match = matcher.feed(text);
  if (!match) return "-";
  CHECK(strings[match->index].text == text.substr(match->begin, match->end - match->begin));
  return std::to_string(match->begin) + ":" + strings[match->index].text;
}

}  // namespace

TEST_CASE("the example of the header holds") {
  StopMatcher matcher = matcher_for({{"\nHuman:"}});
  CHECK_FALSE(matcher.feed("Hi\nHu"));
  CHECK(matcher.safe_end() == 2);
  CHECK_FALSE(matcher.feed("mble"));
  CHECK(matcher.safe_end() == 9);
  const auto match = matcher.feed("\nHuman: x");
  REQUIRE(match);
  CHECK(match->begin == 9);
  CHECK(match->end == 16);
  CHECK(matcher.safe_end() == 9);
}

TEST_CASE("Human does not fire on I am human nor inside a line") {
  const std::vector<StopString> line = {{"Human:", StopBoundary::kLineStart}};
  CHECK(match_in(line, "I am human: yes") == "-");
  CHECK(match_in(line, "I am Human: yes") == "-");
  CHECK(match_in(line, "Human: yes") == "0:Human:");
  CHECK(match_in(line, "I am\nHuman: yes") == "5:Human:");
  const std::vector<StopString> space = {{"Human", StopBoundary::kAfterSpace}};
  CHECK(match_in(space, "superHuman") == "-");
  CHECK(match_in(space, "I am Human") == "5:Human");
  CHECK(match_in(space, "\u3000Human") == "3:Human");
  CHECK(match_in({{"Human"}}, "I am human") == "-");
}

TEST_CASE("a boundary that fails holds nothing back") {
  StopMatcher matcher = matcher_for({{"Human:", StopBoundary::kLineStart}});
  CHECK_FALSE(matcher.feed("super"));
  CHECK_FALSE(matcher.feed("Human"));
  CHECK(matcher.safe_end() == 10);
  CHECK_FALSE(matcher.feed("\nHum"));
  CHECK(matcher.safe_end() == 11);
}

TEST_CASE("the first to end wins and of those the first to begin") {
  CHECK(match_in({{"ab"}, {"abc"}}, "abc") == "0:ab");
  CHECK(match_in({{"bc"}, {"abc"}}, "abc") == "0:abc");
  CHECK(match_in({{"abcX"}, {"cd"}}, "abcd") == "2:cd");
  CHECK(match_in({{"abcd"}, {"bc"}}, "abcd") == "1:bc");
}

TEST_CASE("a boundary rejects the longest candidate and accepts a shorter one") {
  const std::vector<StopString> strings = {{"bc"}, {"abc", StopBoundary::kLineStart}};
  CHECK(match_in(strings, "xabc") == "2:bc");
  CHECK(match_in(strings, "abc") == "0:abc");
  // The shorter one has a condition which holds only inside the longer one.
  const std::vector<StopString> inside = {{"x\nab", StopBoundary::kLineStart},
                                          {"ab", StopBoundary::kLineStart}};
  CHECK(match_in(inside, "yx\nab") == "3:ab");
  CHECK(match_in(inside, "x\nab") == "0:x\nab");
}

TEST_CASE("a word in a word in a word still ends or goes on") {
  // "xab" falls back to "ab", which is no stop string, and from there to "b", which is one.
  CHECK(match_in({{"xabY"}, {"abZ"}, {"b"}}, "xab") == "2:b");
  // "aaQ" keeps "aa" alive; after "aab" no boundary accepts "aabX" or "abX", but "bY" may come.
  StopMatcher matcher = matcher_for(
      {{"aaQ"}, {"aabX", StopBoundary::kLineStart}, {"abX", StopBoundary::kLineStart}, {"bY"}});
  CHECK_FALSE(matcher.feed("-aab"));
  CHECK(matcher.safe_end() == 3);
  CHECK(matcher.feed("Y"));
}

TEST_CASE("equal texts with different boundaries report the first that holds") {
  const std::vector<StopString> strings = {{"ab", StopBoundary::kLineStart}, {"ab"}};
  StopMatcher inside(strings);
  CHECK(inside.feed("xab")->index == 1);
  StopMatcher start(strings);
  CHECK(start.feed("ab")->index == 0);
}

TEST_CASE("forgotten text is no part of a match but counts for boundaries") {
  StopMatcher matcher = matcher_for({{"ab"}, {"c", StopBoundary::kLineStart}});
  CHECK_FALSE(matcher.feed("xa"));
  matcher.forget();
  CHECK(matcher.safe_end() == 2);
  CHECK_FALSE(matcher.feed("b\n"));
  matcher.forget();
  const auto match = matcher.feed("c");
  REQUIRE(match);
  CHECK(match->begin == 4);
}

TEST_CASE("skipped text is never matched and a restart is a start") {
  StopMatcher matcher = matcher_for({{"ab"}, {"c", StopBoundary::kLineStart}});
  matcher.skip("xabab");
  CHECK(matcher.safe_end() == 5);
  CHECK_FALSE(matcher.feed("c"));
  matcher.restart(100);
  const auto match = matcher.feed("c");
  REQUIRE(match);
  CHECK(match->begin == 100);
  matcher.restart(7);
  CHECK(matcher.feed("ab")->end == 9);
}

TEST_CASE("matches and hold-back equal the plain search after every piece") {
  RandomText random(2);
  int stops = 0;
  for (int round = 0; round < 60000; ++round) {
    random.set_narrow(round % 2 == 0);
    const std::vector<StopString> strings = random.stop_strings(6, false);
    const std::string text = random.text(random.below(14));
    StopMatcher matcher(strings);
    std::string fed;
    for (const std::string& piece : random.split(text, 4)) {
      fed += piece;
      const auto match = matcher.feed(piece);
      const ReferenceResult expected = find_stop_plainly(fed, strings);
      REQUIRE(match.has_value() == expected.stop.has_value());
      if (!match) {
        REQUIRE(fed.size() - matcher.safe_end() == expected.held);
        continue;
      }
      REQUIRE(match->index == expected.stop->index);
      REQUIRE(match->begin == expected.stop->begin);
      REQUIRE(match->end == expected.stop->end);
      REQUIRE(matcher.safe_end() == expected.stop->begin);
      ++stops;
      break;
    }
  }
  CHECK(stops > 3000);
}

TEST_CASE("strings that cannot be matched are refused with a sentence") {
  CHECK_THROWS_AS(matcher_for({{""}}), Error);
  CHECK_THROWS_AS(matcher_for({{"\xFF"}}), Error);
  CHECK_THROWS_AS(matcher_for({{std::string(1025, 'a')}}), Error);
  CHECK_THROWS_AS(StopMatcher(std::vector<StopString>(65, {"a"})), Error);
  CHECK_THROWS_WITH(matcher_for({{"a"}, {""}}), Catch::Contains("Stop string 2 is empty"));
  CHECK_NOTHROW(StopMatcher(std::vector<StopString>(64, {std::string(1024, 'a')})));
  CHECK_NOTHROW(matcher_for({}));
}

TEST_CASE("64 long strings take little memory and periodic ones match like short ones") {
  std::vector<StopString> strings;
  RandomText random(3);
  for (std::size_t i = 0; i < 64; ++i) {
    std::string text;
    while (text.size() < 1000) text += static_cast<char>('!' + random.below(90));
    strings.push_back({text + std::string(24, 'z')});
  }
  CHECK(StopAutomaton(strings).memory_bytes() < 4 * 1024 * 1024);

  const std::string period(1023, 'a');
  StopMatcher matcher = matcher_for({{period + "b"}, {"c" + period}});
  CHECK_FALSE(matcher.feed(std::string(5000, 'a')));
  CHECK(matcher.safe_end() == 5000 - 1023);
  const auto match = matcher.feed("b");
  REQUIRE(match);
  CHECK(match->begin == 5000 - 1023);
}
