// Streams that end early, stand still or break: alone, and with their blocks given back.
#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "tests/actors/alone.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

GenerateRequest request_for(std::string prompt, Position max_new_tokens) {
  GenerateRequest request;
  request.input = std::move(prompt);
  request.stop.max_new_tokens = max_new_tokens;
  return request;
}

/// Starts a stream that must not be disturbed by what happens to others.
struct Neighbour {
  GenerateRequest request = request_for("the neighbour", 300);
  std::shared_ptr<StreamLog> log = std::make_shared<StreamLog>();
  std::string expected;

  Neighbour(Engine& engine, const ScriptedEngineOptions& options) {
    ScriptedEngineOptions quick = options;
    quick.per_step = quick.per_token = std::chrono::nanoseconds(0);
    expected = text_alone(scripted_engine(quick), request);
    (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  }
  void check() const {
    REQUIRE(log->wait_for_end());
    CHECK(log->sound());
    CHECK(log->text() == expected);
    CHECK(log->outcome() == "max_new_tokens");
  }
};

void check_all_given_back(const Engine& engine) {
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  REQUIRE(eventually([&] {
    const EngineStats stats = engine.stats();
    return stats.kv.used == 0 && stats.kv.sequences == 0 && stats.scheduler.running == 0 &&
           stats.scheduler.waiting == 0;
  }));
}

TEST_CASE("a listener that goes while its stream is queued", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(200);
  options.config.scheduler.max_running = 1;
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  REQUIRE(neighbour.log->wait_for_tokens(1));
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle =
      engine.generate(request_for("leaving", 50), recorder(log), Delivery::kAcknowledged);
  REQUIRE(eventually([&] { return engine.stats().scheduler.waiting == 1; }));
  handle.listener_gone();
  REQUIRE(eventually([&] { return engine.stats().scheduler.waiting == 0; }));
  REQUIRE(log->wait_for_destruction());
  CHECK(log->terminals() == 0);
  neighbour.check();
  check_all_given_back(engine);
  CHECK(engine.stats().streams_finished.at("cancelled") == 1);
}

TEST_CASE("a listener that goes while its prompt is computed", "[engine]") {
  ScriptedEngineOptions options;
  options.per_token = std::chrono::microseconds(100);
  options.config.scheduler.prefill_chunk = 8;
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  REQUIRE(neighbour.log->wait_for_tokens(1));
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle = engine.generate(request_for(std::string(450, 'x'), 50), recorder(log),
                                              Delivery::kAcknowledged);
  REQUIRE(eventually([&] { return engine.stats().kv.sequences == 2; }));
  handle.listener_gone();
  REQUIRE(eventually([&] { return engine.stats().kv.sequences <= 1; }));
  CHECK(log->ids().empty());
  neighbour.check();
  check_all_given_back(engine);
}

TEST_CASE("a listener that goes while tokens are drawn", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(200);
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle =
      engine.generate(request_for("leaving", 400), recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_tokens(3));
  handle.listener_gone();
  REQUIRE(log->wait_for_destruction());
  CHECK(log->terminals() == 0);
  REQUIRE(eventually([&] { return engine.stats().kv.sequences <= 1; }));
  neighbour.check();
  check_all_given_back(engine);
}

TEST_CASE("cancelling one stream ends only that one", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(200);
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle =
      engine.generate(request_for("stop me", 400), recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_tokens(5));
  handle.cancel("the user pressed stop");
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "cancelled");
  CHECK(log->done().detail == "the user pressed stop");
  CHECK(log->done().usage.completion_tokens == static_cast<Position>(log->text().size()));
  handle.cancel("again");
  handle.resume();
  neighbour.check();
  check_all_given_back(engine);
  CHECK(log->sound());
}

TEST_CASE("a cancel right behind the request is not lost", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(500);
  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (int i = 0; i < 50; ++i) {
    logs.push_back(std::make_shared<StreamLog>());
    const StreamHandle handle =
        engine.generate(request_for("x", 500), recorder(logs.back()), Delivery::kOnReturn);
    handle.pause();
    handle.cancel("at once");
  }
  for (const auto& log : logs) {
    REQUIRE(log->wait_for_end());
    CHECK(log->sound());
    CHECK(log->outcome() == "cancelled");
  }
  check_all_given_back(engine);
}

TEST_CASE("a slow listener holds up nobody else", "[engine]") {
  ScriptedEngineOptions options;
  options.config.credit_window = 8;
  Engine engine(scripted_engine(options));
  const GenerateRequest request = request_for("slow", 100);
  const std::string expected = text_alone(scripted_engine(options), request);
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle = engine.generate(request, recorder(log), Delivery::kAcknowledged);
  REQUIRE(log->wait_for_tokens(8));
  const Neighbour neighbour(engine, options);
  neighbour.check();              // 300 tokens later ...
  CHECK(log->ids().size() == 8);  // ... the slow one has its window and no more
  CHECK(engine.stats().kv.sequences >= 1);

  REQUIRE(eventually([&] {
    handle.delivered(log->last_number());
    return log->terminals() > 0;
  }));
  CHECK(log->sound());
  CHECK(log->text() == expected);
  handle.delivered(log->last_number());
  check_all_given_back(engine);
}

TEST_CASE("a stream whose last handle is dropped does not stand still", "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request_for("x", 200), recorder(log), Delivery::kAcknowledged);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->ids().size() == 200);
  check_all_given_back(engine);
}

TEST_CASE("a paused stream keeps its place and its text", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(100);
  Engine engine(scripted_engine(options));
  const GenerateRequest request = request_for("pause", 200);
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle = engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_tokens(5));
  handle.pause();
  const Neighbour neighbour(engine, options);
  neighbour.check();
  CHECK(log->terminals() == 0);
  CHECK(log->ids().size() < 200);
  handle.resume();
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  options.per_step = std::chrono::nanoseconds(0);
  CHECK(log->text() == text_alone(scripted_engine(options), request));
  check_all_given_back(engine);
}

TEST_CASE("a handler that throws ends its own stream only", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(200);
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  auto log = std::make_shared<StreamLog>();
  const EventHandler record = recorder(log);
  (void)engine.generate(
      request_for("throwing", 400),
      [record, log](const Event& event) {
        record(event);
        if (number_of(event) == 5) throw std::runtime_error("the listener broke");
      },
      Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "error:internal");
  CHECK(log->error_message().find("the listener broke") != std::string::npos);
  neighbour.check();
  check_all_given_back(engine);
}

TEST_CASE("a handler that throws at the terminal event is not called again", "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  const EventHandler record = recorder(log);
  (void)engine.generate(
      request_for("throwing", 4),
      [record](const Event& event) {
        record(event);
        if (is_terminal(event)) throw 42;
      },
      Delivery::kOnReturn);
  check_all_given_back(engine);
  CHECK(log->sound());
  CHECK(log->outcome() == "max_new_tokens");
}

TEST_CASE("a handler may start the next stream", "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  auto first = std::make_shared<StreamLog>();
  auto second = std::make_shared<StreamLog>();
  const EventHandler record = recorder(first);
  (void)engine.generate(
      request_for("one", 10),
      [&engine, record, second](const Event& event) {
        if (is_terminal(event)) {
          (void)engine.generate(request_for("two", 10), recorder(second), Delivery::kOnReturn);
        }
        record(event);
      },
      Delivery::kOnReturn);
  REQUIRE(first->wait_for_end());
  REQUIRE(second->wait_for_end());
  CHECK(second->sound());
  check_all_given_back(engine);
}

TEST_CASE("a stream nobody listens to runs to its end", "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  (void)engine.generate(request_for("x", 20), nullptr, Delivery::kOnReturn);
  REQUIRE(eventually([&] { return engine.stats().streams_finished.contains("max_new_tokens"); }));
  check_all_given_back(engine);
}

TEST_CASE("a sequence that fails in the backend ends alone", "[engine]") {
  ScriptedEngineOptions options;
  const Script endless = endless_script();
  // A negative token fails the slice: here for every sequence that begins with a capital letter,
  // at its 20th token.
  options.next_token = [endless](std::span<const TokenId> tokens) -> TokenId {
    return tokens[1] >= 'A' && tokens[1] <= 'Z' && tokens.size() == 30 ? -1 : endless(tokens);
  };
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request_for("Failing", 400), recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "error:generation_failed");
  neighbour.check();
  check_all_given_back(engine);
  CHECK(engine.stats().executor_restarts == 0);
}

TEST_CASE("a request expires in the queue", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::milliseconds(1);
  options.config.scheduler.max_running = 1;
  options.config.scheduler.queue_deadline = std::chrono::milliseconds(30);
  Engine engine(scripted_engine(options));
  auto first = std::make_shared<StreamLog>();
  auto second = std::make_shared<StreamLog>();
  const StreamHandle running =
      engine.generate(request_for("x", 500), recorder(first), Delivery::kOnReturn);
  REQUIRE(first->wait_for_tokens(1));
  running.pause();  // no step comes along to notice
  (void)engine.generate(request_for("y", 5), recorder(second), Delivery::kOnReturn);
  REQUIRE(second->wait_for_end());
  CHECK(second->outcome() == "error:queue_timeout");
  CHECK(second->sound());
  running.cancel("done");
  check_all_given_back(engine);
}

TEST_CASE("a rule of the embedding program ends its stream", "[engine]") {
  ScriptedEngineOptions options;
  options.next_token = repeating_script("one two three. ", 2);
  Engine engine(scripted_engine(options));
  GenerateRequest request = request_for("x", 200);
  request.stop.custom = [](const StopView& view) -> std::optional<std::string> {
    if (view.text.size() == 10) return "ten bytes";
    return std::nullopt;
  };
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "custom");
  CHECK(log->done().matched == "ten bytes");
  CHECK(log->text() == "one two th");
  check_all_given_back(engine);
}

TEST_CASE("a rule of the embedding program that throws ends its own stream only", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(100);
  Engine engine(scripted_engine(options));
  const Neighbour neighbour(engine, options);
  GenerateRequest request = request_for("x", 200);
  request.stop.custom = [](const StopView& view) -> std::optional<std::string> {
    if (view.num_tokens == 20) throw std::runtime_error("the rule broke");
    return std::nullopt;
  };
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "error:stop_rule_failed");
  CHECK(log->ids().size() == 20);
  neighbour.check();
  check_all_given_back(engine);
}

}  // namespace
