// Every end reason at every moment of a stream's life: the text that may be shown is shown, one
// terminal event follows, the sequence is removed once, and the machine closes once.
#include <catch2/catch.hpp>
#include <functional>

#include "tests/engine/stream/random_text.hpp"
#include "tests/engine/stream/session_fixture.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

// Token ids of the table below.
constexpr TokenId kWord = 0, kLine = 1, kHalf = 2, kRest = 3, kStop = 4, kEnd = 5, kFeed = 6;

std::vector<std::string> table() {
  return {"word", "line\n", "x\xF0\x9F", "\x98\x80", "STOP", "<end>", "\n"};
}

SessionConfig config() {
  SessionConfig config;
  config.prompt_tokens = 10;
  config.context_length = 1000;
  config.max_new_tokens = 8;
  config.stop.stop_strings = {{"\n\n"}, {"STOP"}};
  config.stop.min_confidence = 0.1F;
  config.stop.patience = 1;
  config.stop.repetition_ngram = 1;
  config.stop.repetition_times = 3;
  config.stop.time_limit = 60s;
  config.end_tokens = {kEnd};
  config.credit_window = 16;
  return config;
}

/// A moment: how to get there, and what must be on the screen when it ends there without a
/// further token.
struct Moment {
  std::string name;
  std::function<void(SessionFixture&)> reach;
  std::string text;
};

std::vector<Moment> moments() {
  return {
      {"queued", [](SessionFixture&) {}, ""},
      {"prefilling", [](SessionFixture& s) { s.prefill(4, 10); }, ""},
      {"first token", [](SessionFixture& s) { s.token(kWord); }, "word"},
      {"held-back text",
       [](SessionFixture& s) {
         s.tokens({kWord, kFeed});
       },
       "word\n"},
      {"half a token held back", [](SessionFixture& s) { s.token(kLine); }, "line\n"},
      {"mid code point", [](SessionFixture& s) { s.token(kHalf); }, "x\uFFFD"},
      {"paused in the queue", [](SessionFixture& s) { s.pause(); }, ""},
      {"listener paused with held text",
       [](SessionFixture& s) {
         s.token(kLine);
         s.pause();
       },
       "line\n"},
      {"listener slow",
       [](SessionFixture& s) {
         for (int i = 0; i < 2; ++i) s.tokens({kWord, kHalf, kRest});
       },
       "wordx\U0001F600wordx\U0001F600"},
  };
}

/// An end: what happens, the terminal event, and the text it adds to the moment's.
struct End {
  std::string name;
  std::function<void(SessionFixture&)> happen;
  std::string ending;
  std::string more;  ///< shown after the moment's text (when a token ends the stream)
};

std::vector<End> ends() {
  using Kind = Publication::Kind;
  return {
      {"end token", [](SessionFixture& s) { s.token(kEnd); }, "done:end_token", ""},
      {"stop string", [](SessionFixture& s) { s.token(kStop); }, "done:stop_string", ""},
      {"low confidence", [](SessionFixture& s) { s.token(kWord, 0.0F); }, "done:low_confidence",
       "word"},
      {"time limit",
       [](SessionFixture& s) {
         s.pass(60s);
         s.tick();
       },
       "done:time_limit", ""},
      {"context full", [](SessionFixture& s) { s.happens(Kind::kEndOfRoom); }, "done:context_full",
       ""},
      {"cancel", [](SessionFixture& s) { s.cancel(); }, "done:cancelled", ""},
      {"step failed", [](SessionFixture& s) { s.happens(Kind::kFailed, "NaN"); },
       "error:generation_failed", ""},
      {"queue deadline", [](SessionFixture& s) { s.happens(Kind::kExpired); },
       "error:queue_timeout", ""},
      {"engine failure", [](SessionFixture& s) { s.fail("engine_failed"); }, "error:engine_failed",
       ""},
  };
}

/// Everything that can still arrive after an end must change nothing.
void late_inputs(SessionFixture& s) {
  const std::size_t events = s.events.size();
  s.tokens({kWord, kEnd});
  s.prefill(10, 10);
  s.happens(Publication::Kind::kEndOfRoom);
  s.happens(Publication::Kind::kFailed);
  s.cancel();
  s.fail("late");
  s.reject(RejectReason::kQueueFull);
  s.pause();
  s.resume();
  s.pass(1h);
  s.tick();
  CHECK(s.machine.restart() == 0);
  CHECK(s.events.size() == events);
}

}  // namespace

TEST_CASE("every end at every moment shows all text then ends once") {
  for (const Moment& moment : moments()) {
    for (const End& end : ends()) {
      INFO(end.name << " at " << moment.name);
      SessionFixture s(config(), table(), {kEnd});
      s.start();
      moment.reach(s);
      REQUIRE(s.ending() == "none");
      const std::size_t drawn = s.machine.generated_tokens().size();
      end.happen(s);
      CHECK(s.ending() == end.ending);
      CHECK(s.text() == moment.text + end.more);
      CHECK(s.ids() == s.machine.generated_tokens());
      CHECK(s.machine.generated_tokens().size() - drawn <= 1);
      CHECK(s.machine.held_back_bytes() == 0);
      CHECK(s.removed == 1);
      CHECK(s.machine.phase() == SessionPhase::kFlushing);
      late_inputs(s);
      s.deliver(s.last_number() - 1);  // the text is written, the terminal event is not
      CHECK(s.closed == 0);
      s.deliver_all();
      CHECK(s.closed == 1);
      s.deliver_all();
      s.gone();
      late_inputs(s);
    }
  }
}

TEST_CASE("maximum and repetition end by their own tokens at every moment") {
  for (const Moment& moment : moments()) {
    INFO(moment.name);
    SessionFixture s(config(), table(), {kEnd});
    s.start();
    moment.reach(s);
    std::string expected = moment.text;
    bool even = true;  // alternating tokens: no repetition
    while (!s.ended()) {
      s.token(even ? kLine : kWord);
      expected += even ? "line\n" : "word";
      even = !even;
    }
    CHECK(s.ending() == "done:max_new_tokens");
    CHECK(s.machine.generated_tokens().size() == 8);
    CHECK(s.text() == expected);
    CHECK(s.done().usage.completion_tokens == 8);

    SessionConfig roomy = config();
    roomy.max_new_tokens = 20;
    SessionFixture repeating(roomy, table(), {kEnd});
    repeating.start();
    moment.reach(repeating);
    repeating.tokens({kRest, kRest, kRest, kWord, kWord});  // what follows is dropped
    CHECK(repeating.ending() == "done:repetition");
    CHECK(repeating.ids() == repeating.machine.generated_tokens());
    CHECK(repeating.ids().back() == kRest);
  }
}

TEST_CASE("a listener that goes closes the stream at once at every moment") {
  for (const Moment& moment : moments()) {
    INFO(moment.name);
    SessionFixture s(config(), table(), {kEnd});
    s.start();
    moment.reach(s);
    const std::size_t events = s.events.size();
    s.gone();
    CHECK(s.events.size() == events);
    CHECK(s.removed == 1);
    CHECK(s.closed == 1);
    late_inputs(s);
  }
  SessionFixture flushing(config(), table(), {kEnd});
  flushing.start();
  flushing.cancel();
  flushing.gone();
  CHECK(flushing.closed == 1);
  CHECK(flushing.removed == 1);
}

TEST_CASE("a burst of tokens in one step is one event and ends where the rule holds") {
  SessionFixture s(config(), table(), {kEnd});
  s.start();
  s.tokens({kWord, kLine, kFeed, kWord, kEnd});
  REQUIRE(s.events.size() == 3);
  CHECK(s.text() == "wordline");
  CHECK(s.ids() == std::vector<TokenId>{kWord, kLine, kFeed});
  CHECK(s.ending() == "done:stop_string");
  CHECK(s.done().position == 8);
  CHECK(s.done().usage.completion_tokens == 3);
}

TEST_CASE("credit and protocol hold under random operations") {
  // The fixture checks them after every input; a stream must also always be able to go on.
  const int rounds = std::getenv("SLUICE_LONG") != nullptr ? 200'000 : 4000;
  RandomText random(30);
  for (int round = 0; round < rounds; ++round) {
    SessionConfig c = config();
    c.max_new_tokens = 60;
    c.credit_window = static_cast<std::int32_t>(1 + random.below(6));
    c.stop.repetition_times = 0;
    c.stop.stop_strings.push_back({"\nwordlin\n\nX"});
    c.heartbeat_interval = 3s;
    SessionFixture s(c, table(), {kEnd});
    s.start();
    bool paused = false;
    for (int step = 0; step < 80 && !s.ended(); ++step) {
      const auto draw = [&] {
        std::vector<TokenId> ids;
        const std::size_t count = 1 + random.below(3);
        while (ids.size() < count && static_cast<int>(ids.size()) < s.with_scheduler) {
          ids.push_back(static_cast<TokenId>(random.below(random.chance(30) ? 7 : 4)));
        }
        s.tokens(ids);
      };
      switch (random.below(8)) {
        case 0:
          s.deliver(random.below(s.last_number() + 2));
          break;
        case 1:
          s.deliver_all();
          break;
        case 2:
          s.pause();
          paused = true;
          break;
        case 3:
          s.resume();
          paused = false;
          break;
        case 4:
          s.pass(std::chrono::milliseconds(random.below(2000)));
          break;
        case 5:
          s.tick();
          break;
        default:
          draw();
      }
      if (random.chance(200)) s.cancel();
    }
    if (s.ended()) continue;
    if (paused) s.resume();
    s.deliver_all();
    REQUIRE(s.with_scheduler == s.window);  // all credit is back
  }
}
