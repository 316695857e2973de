// Several answers to one prompt, and pools of several groups and with swap, in whole engines.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "engine/stream/samples.hpp"
#include "tests/actors/alone.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

std::vector<std::shared_ptr<StreamLog>> start(Engine& engine,
                                              const std::vector<GenerateRequest>& requests) {
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (const GenerateRequest& request : requests) {
    logs.push_back(std::make_shared<StreamLog>());
    engine.generate(request, recorder(logs.back()), Delivery::kOnReturn);
  }
  return logs;
}

}  // namespace

TEST_CASE("samples have seeds in a row and one group", "[engine]") {
  GenerateRequest request;
  request.seed = 7;
  const std::vector<GenerateRequest> three = sample_requests(request, 3);
  REQUIRE(three.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(three[i].seed == 7 + i);
    CHECK(three[i].sample_group == three[0].sample_group);
  }
  CHECK(three[0].sample_group != 0);
  CHECK(sample_requests(request, 0).size() == 1);
  CHECK(sample_requests(request, 1)[0].sample_group == 0);
  request.seed.reset();
  const std::vector<GenerateRequest> two = sample_requests(request, 2);
  CHECK(*two[1].seed == *two[0].seed + 1);
}

TEST_CASE("an engine computes the prompt of its samples once", "[engine]") {
  ScriptedEngineOptions options;
  options.config.prefix_cache = false;
  options.config.scheduler.prefill_chunk = 16;
  GenerateRequest request;
  request.input = std::string(201, 'x');
  request.stop.max_new_tokens = 40;
  const std::string expected = text_alone(scripted_engine(options), request);
  Engine engine(scripted_engine(options));
  std::vector<GenerateRequest> requests = sample_requests(request, 4);
  // Without credit the first can't have ended before the others come.
  const auto first = std::make_shared<StreamLog>();
  StreamHandle held = engine.generate(requests.front(), recorder(first), Delivery::kAcknowledged);
  REQUIRE(first->wait_for_tokens(1));
  requests.erase(requests.begin());
  auto logs = start(engine, requests);
  for (const auto& log : logs) REQUIRE(log->wait_for_end());
  REQUIRE(eventually([&] {
    held.delivered(first->last_number());
    return first->terminals() > 0;
  }));
  logs.push_back(first);
  for (const auto& log : logs) {
    CHECK(log->sound());
    CHECK(log->text() == expected);
  }
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  // 202 tokens with the start token; each of the others computes the last one.
  CHECK(engine.stats().scheduler.prompt_tokens == 202 + 3);
}

TEST_CASE("streams with room for five come and go through swap unchanged", "[engine]") {
  for (const std::int32_t slots : {0, 400, 9}) {
    ScriptedEngineOptions options;
    options.num_blocks = 50;
    options.context = 200;
    options.swap_slots = slots;
    std::vector<GenerateRequest> requests;
    std::vector<std::string> expected;
    for (int i = 0; i < 16; ++i) {
      GenerateRequest request;
      request.input = "stream " + std::to_string(i);
      request.stop.max_new_tokens = 28;
      expected.push_back(text_alone(scripted_engine(options), request));
      requests.push_back(std::move(request));
    }
    Engine engine(scripted_engine(options));
    const auto logs = start(engine, requests);
    for (std::size_t i = 0; i < logs.size(); ++i) {
      REQUIRE(logs[i]->wait_for_end());
      CHECK(logs[i]->sound());
      CHECK(logs[i]->text() == expected[i]);
    }
    REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
    const EngineStats stats = engine.stats();
    CHECK(stats.scheduler.preemptions > 0);
    CHECK((stats.kv.swapped_out > 0) == (slots > 0));
    CHECK(stats.kv.swap_used == 0);
    CHECK(stats.kv.swapped_sequences == 0);
  }
}

TEST_CASE("an engine with windowed layers frees what they no longer see", "[engine]") {
  ScriptedEngineOptions options;
  options.windows = {{16, 0}, {12, 5}};
  GenerateRequest request;
  request.input = std::string(150, 'y');
  request.stop.max_new_tokens = 100;
  const std::string expected = text_alone(scripted_engine({}), request);
  Engine engine(scripted_engine(options));
  const auto logs = start(engine, {request, request});
  for (const auto& log : logs) {
    REQUIRE(log->wait_for_end());
    CHECK(log->text() == expected);
  }
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  CHECK(engine.stats().kv.trimmed > 100);
}
