// Engines that go down: in order, on time, with one terminal event for every stream.
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "actors/engine.hpp"
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

std::vector<std::shared_ptr<StreamLog>> start_streams(Engine& engine, int count,
                                                      Position max_new_tokens, Delivery delivery,
                                                      std::vector<StreamHandle>* handles) {
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (int i = 0; i < count; ++i) {
    logs.push_back(std::make_shared<StreamLog>());
    StreamHandle handle =
        engine.generate(request_for("stream " + std::to_string(i), max_new_tokens),
                        recorder(logs.back()), delivery);
    if (handles != nullptr) handles->push_back(std::move(handle));
  }
  return logs;
}

TEST_CASE("running streams finish within the grace time", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(200);
  Engine engine(scripted_engine(options));
  const auto logs = start_streams(engine, 8, 100, Delivery::kOnReturn, nullptr);
  for (const auto& log : logs) REQUIRE(log->wait_for_tokens(1));
  engine.shutdown(kPatience);
  for (const auto& log : logs) {
    CHECK(log->sound());
    CHECK(log->outcome() == "max_new_tokens");
    CHECK(log->ids().size() == 100);
  }
  CHECK(engine.stats().sessions == 0);
  CHECK(engine.stats().kv.used == 0);
  CHECK(!engine.stats().ready);
}

TEST_CASE("after the grace time streams are cancelled", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::milliseconds(20);
  Engine engine(scripted_engine(options));
  const auto logs = start_streams(engine, 8, 500, Delivery::kOnReturn, nullptr);
  for (const auto& log : logs) REQUIRE(log->wait_for_tokens(1));
  engine.shutdown(std::chrono::milliseconds(50));
  for (const auto& log : logs) {
    CHECK(log->sound());
    CHECK(log->outcome() == "cancelled");
    CHECK(log->done().detail == "the engine is shutting down");
  }
  CHECK(engine.stats().sessions == 0);
}

TEST_CASE("a listener that acknowledges nothing does not hold up the end", "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  std::vector<StreamHandle> handles;
  const auto logs = start_streams(engine, 4, 500, Delivery::kAcknowledged, &handles);
  for (const auto& log : logs) REQUIRE(log->wait_for_tokens(1));
  engine.shutdown(std::chrono::milliseconds(0));
  for (const auto& log : logs) {
    CHECK(log->sound());
    CHECK(log->outcome() == "cancelled");
  }
  for (const StreamHandle& handle : handles) handle.delivered(1);
}

TEST_CASE("no stream starts after the shutdown", "[engine]") {
  Engine engine(scripted_engine({}));
  engine.shutdown(std::chrono::milliseconds(0));
  engine.shutdown(std::chrono::milliseconds(0));
  for (const auto& log : start_streams(engine, 4, 5, Delivery::kAcknowledged, nullptr)) {
    REQUIRE(log->wait_for_end());
    CHECK(log->sound());
    CHECK(log->outcome() == "error:shutting_down");
  }
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
}

TEST_CASE("streams that start while the engine goes down all end", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(100);
  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> logs;
  std::thread starter([&] {
    for (int i = 0; i < 200; ++i) {
      logs.push_back(std::make_shared<StreamLog>());
      (void)engine.generate(request_for("x", 50), recorder(logs.back()), Delivery::kOnReturn);
    }
  });
  REQUIRE(eventually([&] { return engine.stats().streams_started > 20; }));
  engine.shutdown(std::chrono::milliseconds(2));
  starter.join();
  for (const auto& log : logs) {
    REQUIRE(log->wait_for_end());
    REQUIRE(log->wait_for_destruction());
    CHECK(log->sound());
  }
}

TEST_CASE("50 engines are made and destroyed while streams run", "[engine]") {
  std::optional<StreamHandle> survivor;
  for (int round = 0; round < 50; ++round) {
    ScriptedEngineOptions options;
    if (round % 3 == 0) options.per_step = std::chrono::microseconds(300);
    if (round % 5 == 0) options.num_blocks = 40;
    if (round % 4 == 1) options.steps_until_fatal = std::make_shared<std::atomic<int>>(round);
    std::vector<StreamHandle> handles;
    std::vector<std::shared_ptr<StreamLog>> logs;
    {
      Engine engine(scripted_engine(options));
      logs =
          start_streams(engine, 6, 150,
                        round % 10 != 1 ? Delivery::kOnReturn : Delivery::kAcknowledged, &handles);
      if (round % 7 != 0) REQUIRE(eventually([&] { return !logs[0]->events().empty(); }));
      if (round % 6 == 0) handles[1].listener_gone();
      if (round % 2 == 1) handles.resize(3);
    }
    for (std::size_t i = 0; i < logs.size(); ++i) {
      REQUIRE(logs[i]->wait_for_destruction());
      if (round % 6 == 0 && i == 1) continue;  // hears nothing
      CHECK(logs[i]->sound());
    }
    survivor = handles[0];
  }
  survivor->cancel("long after its engine");
  survivor->delivered(3);
  survivor->listener_gone();
}

}  // namespace
