#include "engine/stream/session_machine.hpp"

#include <catch2/catch.hpp>

#include "engine/base/error.hpp"
#include "tests/engine/stream/session_fixture.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr TokenId kEnd = 5;

SessionConfig config_with(StopOptions stop = {}) {
  SessionConfig config;
  config.model_name = "table";
  config.prompt_tokens = 10;
  config.context_length = 1000;
  config.max_new_tokens = 100;
  config.stop = std::move(stop);
  config.end_tokens = {kEnd};
  config.seed = 7;
  config.credit_window = 4;
  return config;
}

std::vector<std::string> words() {
  return {"a", "b", "\n", "\xF0\x9F", "\x98\x80", "<end>"};
}

}  // namespace

TEST_CASE("a stream is accepted then shown then done then closed") {
  SessionFixture s(config_with(), words(), {kEnd});
  s.start();
  REQUIRE(s.events.size() == 1);
  const auto& accepted = std::get<AcceptedEvent>(s.events[0]);
  CHECK(accepted.model == "table");
  CHECK(accepted.prompt_tokens == 10);
  CHECK(accepted.max_new_tokens == 100);
  CHECK(accepted.context_length == 1000);
  CHECK(accepted.seed == 7);
  CHECK(s.machine.phase() == SessionPhase::kQueued);
  s.pass(5ms);
  s.prefill(4, 10, 4);
  CHECK(s.machine.phase() == SessionPhase::kPrefill);
  s.pass(5ms);
  s.token(0);
  CHECK(s.machine.phase() == SessionPhase::kDecode);
  s.pass(100ms);
  s.token(1);
  s.pass(100ms);
  s.token(kEnd);
  CHECK(s.machine.phase() == SessionPhase::kFlushing);
  CHECK(s.text() == "ab");
  CHECK(s.ids() == std::vector<TokenId>{0, 1, kEnd});
  REQUIRE(s.ending() == "done:end_token");
  CHECK(s.done().matched == "<end>");
  CHECK(s.done().matched_token == kEnd);
  CHECK(s.done().position == 2);
  CHECK(s.done().usage.prompt_tokens == 10);
  CHECK(s.done().usage.cached_tokens == 4);
  CHECK(s.done().usage.completion_tokens == 3);
  CHECK(s.done().timing.queued == 5ms);
  CHECK(s.done().timing.first_token == 10ms);
  CHECK(s.done().timing.total == 210ms);
  CHECK(s.done().timing.tokens_per_second == Approx(10.0));
  CHECK(s.removed == 1);
  CHECK(s.closed == 0);
  s.deliver_all();
  CHECK(s.closed == 1);
}

TEST_CASE("credit comes back when events are delivered") {
  SessionFixture s(config_with(), words());
  s.start();
  CHECK(s.last_credit == 0);
  s.token(0);
  s.tokens({0, 1});
  CHECK(s.last_credit == 0);
  CHECK(s.with_scheduler == 1);
  s.deliver(2);
  CHECK(s.last_credit == 1);
  s.deliver(2);
  CHECK(s.last_credit == 0);
  s.deliver(3);
  CHECK(s.last_credit == 2);
  s.deliver(1000);  // a listener that claims too much gains nothing
  CHECK(s.last_credit == 0);
  CHECK(s.with_scheduler == 4);
}

TEST_CASE("a token held back is granted again at once and costs nothing when shown") {
  SessionFixture s(config_with({.stop_strings = {{"\n\n\n\n\n\n\nX"}}}), words());
  s.start();
  for (int i = 0; i < 7; ++i) {
    s.token(2);
    CHECK(s.last_credit == 1);
    CHECK(s.events.size() == 1);
  }
  s.token(0);
  CHECK(s.text() == "\n\n\n\n\n\n\na");
  CHECK(s.last_credit == 0);
  CHECK(s.with_scheduler == 3);
  s.deliver_all();
  CHECK(s.last_credit == 1);
}

TEST_CASE("of a burst only the tokens in the event wait for its delivery") {
  SessionFixture s(config_with({.stop_strings = {{"\n\n"}}}), words());
  s.start();
  s.tokens({0, 1, 2});  // "ab" is shown, the line feed held back
  CHECK(s.last_credit == 1);
  CHECK(s.with_scheduler == 2);
  s.deliver_all();
  CHECK(s.last_credit == 2);
}

TEST_CASE("pause withholds credit and resume returns it") {
  SessionFixture s(config_with(), words());
  s.start();
  s.prefill(10, 10);
  s.token(0);
  s.pause();
  CHECK(s.machine.phase() == SessionPhase::kPaused);
  s.tokens({0, 1, 0});  // drawn with credit that was out already
  s.deliver_all();
  CHECK(s.last_credit == 0);
  CHECK(s.machine.phase() == SessionPhase::kPaused);
  s.pause();
  s.resume();
  CHECK(s.last_credit == 4);
  CHECK(s.machine.phase() == SessionPhase::kDecode);
  s.resume();
  CHECK(s.last_credit == 0);
}

TEST_CASE("a pause in the queue ends where the stream has come meanwhile") {
  SessionFixture s(config_with(), words());
  s.start();
  s.pause();
  s.prefill(3, 10);
  CHECK(s.machine.phase() == SessionPhase::kPaused);
  s.resume();
  CHECK(s.machine.phase() == SessionPhase::kPrefill);
}

TEST_CASE("heartbeats come only after silence and say where the stream is") {
  SessionConfig config = config_with();
  config.heartbeat_interval = 10s;
  SessionFixture s(config, words());
  s.start();
  s.machine.set_queue_position(3);
  CHECK(s.machine.next_deadline() == s.now + 10s);
  s.pass(9999ms);
  s.tick();
  CHECK(s.heartbeats() == 0);
  s.pass(1ms);
  s.tick();
  s.tick();
  REQUIRE(s.heartbeats() == 1);
  const auto& queued = std::get<HeartbeatEvent>(s.events.back());
  CHECK(queued.phase == "queued");
  CHECK(queued.queue_position == 3);
  s.prefill(256, 900);
  s.pass(60s);  // a long prefill is no reason to end anything
  s.tick();
  const auto prefill = std::get<HeartbeatEvent>(s.events.back());
  CHECK(prefill.phase == "prefill");
  CHECK(prefill.queue_position == 0);
  CHECK(prefill.prefill_done == 256);
  CHECK(prefill.prefill_total == 900);
  s.pass(9s);
  s.token(0);
  s.pass(9s);
  s.tick();
  CHECK(s.heartbeats() == 2);
  s.pause();
  s.pass(1s);
  s.tick();
  CHECK(std::get<HeartbeatEvent>(s.events.back()).phase == "paused");
  s.cancel();
  s.pass(60s);
  s.tick();
  CHECK(s.ending() == "done:cancelled");
}

TEST_CASE("the time limit counts from acceptance and waits for the minimum") {
  SessionFixture plain(config_with({.time_limit = 500ms}), words());
  plain.start();
  CHECK(plain.machine.next_deadline() == plain.now + 500ms);
  plain.pass(499ms);
  plain.tick();
  CHECK(plain.ending() == "none");
  plain.pass(1ms);
  plain.tick();
  CHECK(plain.ending() == "done:time_limit");

  SessionFixture minimum(config_with({.min_new_tokens = 2, .time_limit = 500ms}), words());
  minimum.start();
  minimum.pass(600ms);
  CHECK(minimum.machine.next_deadline() > minimum.now);  // nothing to wake up for
  minimum.tick();
  minimum.token(0);
  CHECK(minimum.ending() == "none");
  minimum.token(0);
  CHECK(minimum.ending() == "done:time_limit");
  CHECK(minimum.text() == "aa");
}

TEST_CASE("a time limit beyond the clock is no limit") {
  SessionFixture s(config_with({.time_limit = std::chrono::milliseconds::max()}), words());
  s.start();
  CHECK(s.machine.next_deadline() == s.now + 10s);
  s.tick();
  CHECK(s.ending() == "none");
}

TEST_CASE("no room ends the stream by a rule whoever notices first") {
  SessionFixture told(config_with(), words());
  told.start();
  told.token(0);
  told.happens(Publication::Kind::kEndOfRoom);
  CHECK(told.ending() == "done:context_full");

  SessionConfig config = config_with();
  config.context_length = 12;
  SessionFixture counted(config, words());
  counted.start();
  counted.tokens({0, 1, 0, 1});
  CHECK(counted.ending() == "done:context_full");
  CHECK(counted.text() == "ab");
}

TEST_CASE("rejections are errors and remove nothing") {
  using enum RejectReason;
  const std::vector<std::pair<RejectReason, std::string>> cases = {
      {kQueueFull, "queue_full"},     {kPromptTooLong, "prompt_too_long"},
      {kEmptyPrompt, "empty_prompt"}, {kDuplicateId, "duplicate_id"},
      {kStopping, "shutting_down"},   {kNone, "internal"}};
  for (const auto& [reason, code] : cases) {
    SessionFixture s(config_with(), words());
    s.start();
    s.reject(reason);
    CHECK(s.ending() == "error:" + code);
    CHECK(s.removed == 0);
    s.deliver_all();
    CHECK(s.closed == 1);
  }
}

TEST_CASE("a restart keeps the tokens and hands over the free credit") {
  SessionFixture s(config_with(), words());
  s.start();
  s.prefill(10, 10, 6);
  s.tokens({0, 1, 0});  // one event of three tokens, not delivered
  CHECK(s.machine.restart() == 1);
  CHECK(s.machine.phase() == SessionPhase::kQueued);
  CHECK(s.machine.generated_tokens() == std::vector<TokenId>{0, 1, 0});
  s.prefill(13, 13, 12);  // its own output from the cache is no cached prompt
  s.token(1);
  s.deliver_all();
  CHECK(s.last_credit == 4);
  s.token(kEnd);
  CHECK(s.text() == "abab");
  CHECK(s.done().usage.cached_tokens == 6);
  s.pause();
  CHECK(s.machine.restart() == 0);
}

TEST_CASE("a restart while paused submits without credit") {
  SessionFixture s(config_with(), words());
  s.start();
  s.token(0);
  s.pause();
  CHECK(s.machine.restart() == 0);
  CHECK(s.machine.phase() == SessionPhase::kPaused);
}

TEST_CASE("a maximum of nothing is done at once") {
  SessionConfig config = config_with();
  config.max_new_tokens = 0;
  SessionFixture s(config, words());
  s.start();
  CHECK(s.ending() == "done:max_new_tokens");
  CHECK(s.removed == 1);
}

TEST_CASE("a session refuses stop options that cannot work") {
  CHECK_THROWS_AS(SessionFixture(config_with({.stop_strings = {{""}}}), words()), Error);
  SessionConfig config = config_with();
  config.reasoning = ReasoningMarkers{"", "</think>"};
  CHECK_THROWS_AS(SessionFixture(config, words()), Error);
}
