// Streams that are changed while they run: maximum, stops, temperature.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <random>
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

/// An engine and one stream that stands still after `window` tokens until they are acknowledged.
struct Held {
  ScriptedEngineOptions options;
  std::unique_ptr<Engine> engine;
  std::shared_ptr<StreamLog> log = std::make_shared<StreamLog>();
  StreamHandle handle;

  explicit Held(const GenerateRequest& request, std::int32_t window = 8,
                Script script = endless_script()) {
    options.next_token = std::move(script);
    options.config.credit_window = window;
    engine = std::make_unique<Engine>(scripted_engine(options));
    handle = engine->generate(request, recorder(log), Delivery::kAcknowledged);
    REQUIRE(log->wait_for_tokens(static_cast<std::size_t>(window)));
  }
  void finish() {
    REQUIRE(eventually([&] {
      handle.delivered(log->last_number());
      return log->terminals() > 0;
    }));
    CHECK(log->sound());
    handle.delivered(log->last_number());
    REQUIRE(eventually([&] { return engine->stats().sessions == 0; }));
    REQUIRE(eventually([&] { return engine->stats().kv.used == 0; }));
  }
};

TEST_CASE("a larger maximum lets a stream go on", "[engine][steering]") {
  Held held(request_for("more", 20));
  held.handle.change({.max_new_tokens = 50});
  held.finish();
  CHECK(held.log->outcome() == "max_new_tokens");
  CHECK(held.log->text() == text_alone(scripted_engine(held.options), request_for("more", 50)));
}

TEST_CASE("a maximum beyond the context is what the context allows", "[engine][steering]") {
  Held held(request_for(std::string(399, 'x'), 20));
  held.handle.change({.max_new_tokens = 100000});
  held.finish();
  CHECK(held.log->outcome() == "context_full");
  CHECK(held.log->ids().size() == 112);
}

TEST_CASE("a smaller maximum ends a stream there", "[engine][steering]") {
  Held held(request_for("less", 100));
  held.handle.change({.max_new_tokens = 12});
  held.finish();
  CHECK(held.log->outcome() == "max_new_tokens");
  CHECK(held.log->text() == text_alone(scripted_engine(held.options), request_for("less", 12)));
}

TEST_CASE("a maximum that is reached already ends a stream at once", "[engine][steering]") {
  Held held(request_for("less", 100));
  held.handle.change({.max_new_tokens = 3});  // nothing acknowledged: no token comes along
  REQUIRE(held.log->wait_for_end());
  CHECK(held.log->outcome() == "max_new_tokens");
  CHECK(held.log->ids().size() == 8);  // what was shown stays
  held.finish();
}

TEST_CASE("new stop strings are looked for in what comes", "[engine][steering]") {
  Held held(request_for("x", 100), 4, repeating_script("one two three. ", 2));
  held.handle.change({.stop_strings = std::vector<StopString>{{.text = "three"}}});
  held.finish();
  CHECK(held.log->outcome() == "stop_string");
  CHECK(held.log->text() == "one two ");
  CHECK(held.log->done().matched == "three");
}

TEST_CASE("stop strings that are taken away let held text go", "[engine][steering]") {
  GenerateRequest request = request_for("x", 40);
  request.stop.stop_strings = {{.text = "two three. one"}};
  Held held(request, 4, repeating_script("one two three. ", 2));
  held.handle.change({.stop_strings = std::vector<StopString>{},
                      .stop_patterns = std::vector<StopPattern>{{.pattern = "o.e t.o t"}}});
  held.finish();
  CHECK(held.log->outcome() == "stop_string");
  CHECK(held.log->done().matched == "one two t");
  CHECK(held.log->text() == "one two three. ");
}

TEST_CASE("a change that can not work changes nothing", "[engine][steering]") {
  Held held(request_for("sound", 30));
  held.handle.change({.max_new_tokens = 0});
  held.handle.change({.max_new_tokens = 5, .stop_strings = std::vector<StopString>{{.text = ""}}});
  held.handle.change({.stop_patterns = std::vector<StopPattern>{{.pattern = "("}}});
  held.handle.change({.temperature = -1.0F});
  held.finish();
  CHECK(held.log->outcome() == "max_new_tokens");
  CHECK(held.log->text() == text_alone(scripted_engine(held.options), request_for("sound", 30)));
}

TEST_CASE("a change right behind the request is not lost", "[engine][steering]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  for (Position maximum = 1; maximum <= 100; ++maximum) {
    auto log = std::make_shared<StreamLog>();
    const StreamHandle handle =
        engine.generate(request_for("early", 400), recorder(log), Delivery::kAcknowledged);
    handle.change({.max_new_tokens = 300});
    handle.change({.max_new_tokens = maximum, .temperature = 0.0F});
    handle.change({.max_new_tokens = 0});
    REQUIRE(eventually([&] {
      handle.delivered(log->last_number());
      return log->terminals() > 0;
    }));
    CHECK(log->sound());
    CHECK(log->outcome() == "max_new_tokens");
    CHECK(log->ids().size() >= static_cast<std::size_t>(maximum));
    CHECK(log->ids().size() <= static_cast<std::size_t>(maximum) + 16);
  }
}

TEST_CASE("a change of a stream that has ended or whose engine is gone goes nowhere",
          "[engine][steering]") {
  StreamHandle handle;
  {
    ScriptedEngineOptions options;
    Engine engine(scripted_engine(options));
    auto log = std::make_shared<StreamLog>();
    handle = engine.generate(request_for("x", 5), recorder(log), Delivery::kOnReturn);
    REQUIRE(log->wait_for_end());
    handle.change({.max_new_tokens = 100});
    CHECK(log->ids().size() == 5);
  }
  handle.change({.max_new_tokens = 100});
  handle.pause();
  handle.resume();
  handle.delivered(7);
  handle.listener_gone();
  handle.cancel("too late");
}

TEST_CASE("changes survive a restart of the backend", "[engine][steering]") {
  ScriptedEngineOptions options;
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(-1);
  options.config.credit_window = 8;
  options.config.restart.first_pause = std::chrono::milliseconds(1);
  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle =
      engine.generate(request_for("again", 20), recorder(log), Delivery::kAcknowledged);
  REQUIRE(log->wait_for_tokens(8));
  handle.change({.max_new_tokens = 60});
  *options.steps_until_fatal = 3;
  REQUIRE(eventually([&] {
    handle.delivered(log->last_number());
    return log->terminals() > 0;
  }));
  CHECK(log->sound());
  CHECK(engine.stats().executor_restarts == 1);
  *options.steps_until_fatal = -1;
  CHECK(log->text() == text_alone(scripted_engine(options), request_for("again", 60)));
}

/// Draws the letter 'a' + 10 x temperature, so that every token tells its own.
struct Thermometer final : Backend {
  void allocate_pool(const KvPoolShape& shape) override { inner->allocate_pool(shape); }
  StepResult step(const StepBatch& batch) noexcept override {
    StepResult result = inner->step(batch);
    for (std::size_t i = 0; i < batch.slices.size(); ++i) {
      if (!result.slices[i].token) continue;
      const float tenths = batch.slices[i].sampling->temperature * 10.0F;
      result.slices[i].token->id = 'a' + static_cast<TokenId>(std::lround(tenths));
    }
    return result;
  }
  BackendMemory memory() const override { return inner->memory(); }
  std::string description() const override { return "thermometer"; }

  std::unique_ptr<Backend> inner =
      make_scripted_backend({.next_token = [](std::span<const TokenId>) { return TokenId{'z'}; }});
};

TEST_CASE("a new temperature holds from the next token on and through a pause",
          "[engine][steering]") {
  PreparedEngine prepared = scripted_engine({});
  prepared.config.credit_window = 4;
  prepared.make_backend = [] { return std::make_unique<Thermometer>(); };
  Engine engine(std::move(prepared));
  GenerateRequest request = request_for("x", 12);
  request.sampling.temperature = 0.2F;
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle = engine.generate(request, recorder(log), Delivery::kAcknowledged);
  REQUIRE(log->wait_for_tokens(4));
  handle.change({.temperature = 0.5F});
  handle.delivered(log->last_number());
  REQUIRE(log->wait_for_tokens(8));
  handle.pause();
  handle.change({.temperature = 0.9F});
  handle.resume();
  handle.delivered(log->last_number());
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->text() == "ccccffffjjjj");
}

TEST_CASE("a random walk of maxima ends where the last one says", "[engine][steering]") {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    Held held(request_for("walk", 60), 4);
    Position last = 60;
    for (int i = 0; i < 10; ++i) {
      last = static_cast<Position>(20 + random() % 80);
      held.handle.change({.max_new_tokens = last});
      if (random() % 3 == 0) held.handle.pause();
      held.handle.resume();
    }
    held.finish();
    CHECK(held.log->ids().size() == static_cast<std::size_t>(last));
    CHECK(held.log->text() == text_alone(scripted_engine(held.options), request_for("walk", last)));
  }
}

}  // namespace
