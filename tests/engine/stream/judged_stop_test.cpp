// A rule of the embedding program that answers later: the same end as the same rule on the spot,
// whatever the answers' timing, and nothing shown that has not been judged.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "engine/base/error.hpp"
#include "engine/stream/utf8_accumulator.hpp"
#include "tests/engine/stream/session_fixture.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr TokenId kEnd = 5;
constexpr TokenId kSpecial = 6;

std::vector<std::string> words() {
  return {"a", "b\n", "Hu", "\xF0\x9F", "\x98\x80", "<end>", "<s>", "\xC3", "ab"};
}

/// Never asked: the machine's outputs carry the questions.
class NoJudge final : public StopJudge {
 public:
  void judge(StopQuestion, StopReply) override {}
};

SessionConfig config_with(StopOptions stop, Position max_new_tokens = 100) {
  SessionConfig config;
  config.prompt_tokens = 10;
  config.context_length = 1000;
  config.max_new_tokens = max_new_tokens;
  config.credit_window = 16;
  config.end_tokens = {kEnd};
  config.stop = std::move(stop);
  return config;
}

SessionConfig judged_config(JudgeRule rule = {}, StopOptions stop = {}) {
  rule.judge = std::make_shared<NoJudge>();
  stop.judge = std::move(rule);
  return config_with(std::move(stop));
}

/// A machine with a judge: keeps the open question, knows how much may have been shown.
class JudgedStream {
 public:
  explicit JudgedStream(SessionConfig config)
      : machine(std::move(config),
                std::make_shared<TableTokenizer>(words(), std::set<TokenId>{kEnd, kSpecial}), now) {
    credit = machine.restart();
    take(machine.start());
  }

  void draw(const std::vector<TokenId>& drawn) {
    std::vector<Publication> list;
    for (const TokenId id : drawn) {
      Publication p;
      p.token = {.id = id, .logprob = 0.0F, .top_probability = 1.0F, .top = {}};
      list.push_back(p);
      --credit;
    }
    take(machine.on_publications(list, now));
  }
  void answer(StopAnswer what) {
    const std::uint64_t number = question->number;
    question.reset();
    take(machine.on_judged(number, std::move(what), now));
  }
  void tick() { take(machine.on_tick(now)); }
  void take(SessionMachine::Output out) {
    for (Event& event : out.events) {
      if (const auto* token = std::get_if<TokenEvent>(&event)) {
        text += token->text;
        for (const TokenPiece& piece : token->pieces) {
          if (piece.id != kNoToken) ids.push_back(piece.id);
        }
      }
      if (is_terminal(event)) end = event;
      last = number_of(event);
    }
    credit += out.credit;
    if (out.question) {
      REQUIRE_FALSE(question);
      REQUIRE_FALSE(out.question->tokens.empty());
      question = std::move(out.question);
    }
  }
  std::string outcome() const {
    if (!end) return "none";
    if (const auto* done = std::get_if<DoneEvent>(&*end)) return std::string(name(done->rule));
    return "error:" + std::get<ErrorEvent>(*end).code;
  }
  const DoneEvent& done() const { return std::get<DoneEvent>(*end); }

  TimePoint now{1000s};
  SessionMachine machine;
  std::optional<StopQuestion> question;
  std::optional<Event> end;
  std::string text;
  std::vector<TokenId> ids;
  std::uint64_t last = 0;
  std::int32_t credit = 0;
};

}  // namespace

TEST_CASE("nothing is shown or counted before the judge has answered") {
  JudgedStream s(judged_config());
  s.draw({0, 8});
  REQUIRE(s.question);
  CHECK(s.question->first == 1);
  CHECK(s.question->tokens.size() == 2);
  CHECK(s.question->tokens[1].text == "ab");
  CHECK(s.question->max_new_tokens == 100);
  CHECK(s.text.empty());
  CHECK(s.machine.generated_tokens() == std::vector<TokenId>{0, 8});
  s.draw({8});  // meanwhile
  s.answer(StopAnswer::go_on());
  CHECK(s.text == "aab");
  REQUIRE(s.question);
  CHECK(s.question->first == 3);
  s.answer(StopAnswer::stop(0, CustomEnd("enough", 4)));
  CHECK(s.text == "aaba");
  CHECK(s.outcome() == "custom");
  CHECK(s.done().matched == "enough");
  CHECK(s.done().position == 4);
  CHECK(s.done().usage.completion_tokens == 3);
}

TEST_CASE("what a judge keeps is not less than what was shown and whole code points") {
  const auto text_with = [](std::optional<std::uint64_t> keep) {
    JudgedStream s(judged_config());
    s.draw({0});
    s.answer(StopAnswer::go_on());
    s.draw({3, 4, 0});  // an emoji and an a: bytes 1 to 5
    s.answer(StopAnswer::stop(2, CustomEnd("x", keep)));
    CHECK(s.ids == std::vector<TokenId>{0, 3, 4, 0});
    return s.text;
  };
  CHECK(text_with(std::nullopt) == "a\U0001F600a");
  CHECK(text_with(100) == "a\U0001F600a");
  CHECK(text_with(5) == "a\U0001F600");
  // The emoji's tokens were judged before, in the same question.
  CHECK(text_with(0) == "a\U0001F600");
}

TEST_CASE("a judge's stream draws only a few tokens ahead of the verdicts") {
  JudgedStream s(judged_config({.ahead = 3}));
  CHECK(s.credit == 3);
  s.draw({0, 0});
  CHECK(s.credit == 1);
  s.draw({0});
  CHECK(s.credit == 0);
  s.answer(StopAnswer::go_on());
  CHECK(s.credit == 2);  // the third is with the judge
  s.answer(StopAnswer::go_on());
  CHECK(s.credit == 3);
}

TEST_CASE("a judge that fails or is late ends its stream or is left out") {
  for (const bool ignore : {false, true}) {
    for (const bool late : {false, true}) {
      JudgedStream s(judged_config({.limit = 50ms, .ignore_failure = ignore, .ahead = 4}));
      s.draw({0});
      s.answer(StopAnswer::go_on());
      s.draw({8});
      s.draw({0});
      if (late) {
        CHECK(s.machine.next_deadline() == s.now + 50ms);
        s.now += 49ms;
        s.tick();
        CHECK(s.outcome() == "none");
        s.now += 1ms;
        s.tick();
      } else {
        s.answer({.failure = "no \xFF"});
      }
      if (ignore) {
        CHECK(s.text == "aaba");
        s.draw({0});
        CHECK(s.text == "aabaa");
        CHECK(s.outcome() == "none");
      } else {
        CHECK(s.text == "a");
        CHECK(s.outcome() == "error:stop_rule_failed");
        CHECK(std::get<ErrorEvent>(*s.end).message ==
              (late ? "The caller's own stop rule failed: it did not answer within 50 ms."
                    : "The caller's own stop rule failed: no \uFFFD."));
      }
    }
  }
}

TEST_CASE("other ends do not wait for the judge") {
  for (const std::string how : {"cancel", "time", "failed"}) {
    JudgedStream s(judged_config({}, {.time_limit = 100ms}));
    s.draw({0});
    s.answer(StopAnswer::go_on());
    s.draw({8});
    const std::uint64_t open = s.question->number;
    if (how == "cancel") s.take(s.machine.cancel("by the user", s.now));
    if (how == "time") {
      s.now += 100ms;
      s.tick();
    }
    if (how == "failed") s.take(s.machine.fail("generation_failed", "It broke.", s.now));
    REQUIRE(s.end);
    CHECK(s.text == "a");
    CHECK(s.ids == std::vector<TokenId>{0});
    const std::uint64_t last = s.last;
    s.take(s.machine.on_judged(open, StopAnswer::go_on(), s.now));
    CHECK(s.last == last);
  }
}

TEST_CASE("the end of the room waits for the last verdict") {
  JudgedStream s(judged_config());
  s.draw({0, 0});
  Publication room;
  room.kind = Publication::Kind::kEndOfRoom;
  s.take(s.machine.on_publications({&room, 1}, s.now));
  CHECK(s.outcome() == "none");
  s.answer(StopAnswer::go_on());
  CHECK(s.outcome() == "context_full");
  CHECK(s.text == "aa");
}

TEST_CASE("a rule may be a function or a judge but not both") {
  StopOptions stop;
  stop.judge.judge = std::make_shared<NoJudge>();
  CHECK_NOTHROW(check_stop_options(stop));
  stop.custom = [](const StopView&) { return std::optional<CustomEnd>(); };
  CHECK_THROWS_AS(check_stop_options(stop), Error);
  stop.custom = nullptr;
  stop.judge.ahead = 0;
  CHECK_THROWS_AS(check_stop_options(stop), Error);
}

TEST_CASE("a reply is given once and letting go of it is a failure") {
  std::vector<std::string> heard;
  const auto deliver = [&](const StopAnswer& answer) { heard.push_back(answer.failure); };
  {
    const StopReply reply(deliver);
    reply({.failure = "one"});
    reply({.failure = "two"});
  }
  { const StopReply dropped(deliver); }
  REQUIRE(heard.size() == 2);
  CHECK(heard[0] == "one");
  CHECK(heard[1].find("without an answer") != std::string::npos);
}

TEST_CASE("a judge ends any stream exactly as the same rule on the spot") {
  std::mt19937_64 random(11);
  const auto dice = [&](std::uint64_t sides) { return random() % sides; };
  std::map<std::string, int> outcomes;
  for (int round = 0; round < 4000; ++round) {
    StopOptions stop;
    if (dice(2) == 0) stop.stop_strings = {{"b\nHu"}, {"aab"}};
    stop.min_new_tokens = static_cast<Position>(dice(3) == 0 ? dice(8) : 0);
    const auto longest = static_cast<Position>(1 + dice(30));
    // Depends on all text and on the count; ends somewhere, keeps some.
    const std::uint64_t salt = random();
    const auto rule = [salt](std::string_view text, Position count) -> std::optional<CustomEnd> {
      const std::uint64_t hash = std::hash<std::string_view>()(text) ^ salt;
      if (hash % 17 != 0 && count % 13 != 12) return std::nullopt;
      CustomEnd end(std::to_string(count));
      if (hash % 3 == 0) end.keep = hash % (text.size() + 2);
      return end;
    };
    StopOptions on_the_spot = stop;
    on_the_spot.custom = [&](const StopView& v) { return rule(v.text, v.num_tokens); };
    SessionFixture expected(config_with(on_the_spot, longest), words(), {kEnd, kSpecial});
    expected.start();
    stop.judge = {.judge = std::make_shared<NoJudge>(),
                  .ahead = static_cast<std::int32_t>(1 + dice(6))};
    JudgedStream s(config_with(stop, longest));
    std::string seen;  // by the judge
    Position count = 0;
    const auto answer = [&] {
      StopAnswer verdicts;
      for (const StopQuestion::Token& token : s.question->tokens) {
        seen += token.text;
        verdicts.ends.push_back(rule(seen, ++count));
      }
      s.answer(std::move(verdicts));
    };
    for (Position i = 0; i < 40 && !(expected.ended() && s.end); ++i) {
      const TokenId id = static_cast<TokenId>(dice(12) == 0  ? kEnd
                                              : dice(5) == 0 ? dice(9)
                                                             : dice(3));
      if (!expected.ended()) expected.token(id);
      expected.deliver_all();
      while (s.credit == 0 && s.question) answer();
      if (!s.end && s.credit > 0) s.draw({id});
      REQUIRE(expected.text().starts_with(s.text));
      if (s.question && dice(2) == 0) answer();
      s.take(s.machine.on_delivered(s.last));
    }
    while (s.question && !s.end) answer();
    REQUIRE(expected.ended() == s.end.has_value());
    REQUIRE(expected.text() == s.text);
    if (!s.end) continue;
    ++outcomes[s.outcome()];
    CHECK("done:" + s.outcome() == expected.ending());
    CHECK(s.ids == expected.ids());
    CHECK(s.done().matched == expected.done().matched);
    CHECK(s.done().position == expected.done().position);
    CHECK(s.done().usage.completion_tokens == expected.done().usage.completion_tokens);
  }
  CHECK(outcomes["custom"] > 300);
  CHECK(outcomes["stop_string"] > 100);
  CHECK(outcomes["max_new_tokens"] > 100);
  CHECK(outcomes["end_token"] > 100);
}
