// Handlers that use the engine they hear from: their own stream, other streams, at any event.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
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

/// A handle that its own handler can reach; the two own each other until the stream ends.
struct OwnHandle {
  std::mutex mutex;
  StreamHandle handle;
  StreamHandle get() {
    const std::lock_guard lock(mutex);
    return handle;
  }
  void set(StreamHandle value) {
    const std::lock_guard lock(mutex);
    handle = std::move(value);
  }
};

/// Runs one stream whose handler calls `act` on its own handle at every token event.
std::shared_ptr<StreamLog> run_steered_from_inside(
    Engine& engine, Delivery delivery, std::function<void(const StreamHandle&, int)> act) {
  auto log = std::make_shared<StreamLog>();
  auto own = std::make_shared<OwnHandle>();
  int events = 0;
  own->set(engine.generate(
      request_for("inside", 60),
      [record = recorder(log), own, act = std::move(act), events](const Event& event) mutable {
        record(event);
        if (std::holds_alternative<TokenEvent>(event)) act(own->get(), ++events);
        own->get().delivered(number_of(event));
      },
      delivery));
  // The first events may have come before there was a handle to acknowledge them with.
  REQUIRE(eventually([&] {
    own->get().delivered(log->last_number());
    return log->terminals() > 0;
  }));
  REQUIRE(log->wait_for_destruction());
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  CHECK(log->sound());
  CHECK(own.use_count() == 1);  // the handler has gone, and what it held
  return log;
}

TEST_CASE("a handler may steer its own stream", "[engine][handlers]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::microseconds(100);
  Engine engine(scripted_engine(options));
  for (const Delivery delivery : {Delivery::kOnReturn, Delivery::kAcknowledged}) {
    const auto cancelled = run_steered_from_inside(
        engine, delivery, [](const StreamHandle& handle, int) { handle.cancel("from inside"); });
    CHECK(cancelled->outcome() == "cancelled");
    CHECK(cancelled->done().detail == "from inside");

    const auto paused =
        run_steered_from_inside(engine, delivery, [](const StreamHandle& handle, int) {
          handle.pause();
          handle.resume();
        });
    CHECK(paused->outcome() == "max_new_tokens");
    CHECK(paused->ids().size() == 60);

    const auto changed = run_steered_from_inside(
        engine, delivery,
        [](const StreamHandle& handle, int) { handle.change({.max_new_tokens = 90}); });
    CHECK(changed->ids().size() == 90);
  }
}

TEST_CASE("a handler may say that it is gone", "[engine][handlers]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  auto own = std::make_shared<OwnHandle>();
  own->set(engine.generate(
      request_for("inside", 500),
      [record = recorder(log), own](const Event& event) {
        record(event);
        own->get().listener_gone();
      },
      Delivery::kOnReturn));
  REQUIRE(log->wait_for_destruction());
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  CHECK(log->terminals() <= 1);
}

TEST_CASE("handlers may look at the engine and start streams from every event",
          "[engine][handlers]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  std::vector<std::shared_ptr<StreamLog>> children;
  for (int i = 0; i < 60; ++i) children.push_back(std::make_shared<StreamLog>());
  auto next = std::make_shared<std::size_t>(0);
  (void)engine.generate(
      request_for("parent", 40),
      [&engine, record = recorder(log), next, &children](const Event& event) {
        (void)engine.stats();
        (void)engine.info();
        if (*next < children.size()) {
          (void)engine.generate(request_for("child", 7), recorder(children[(*next)++]),
                                Delivery::kOnReturn);
        }
        record(event);
      },
      Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  REQUIRE(log->wait_for_destruction());
  for (std::size_t i = 0; i < *next; ++i) {
    REQUIRE(children[i]->wait_for_end());
    CHECK(children[i]->sound());
    CHECK(children[i]->ids().size() == 7);
  }
  CHECK(*next > 1);
}

TEST_CASE("handlers that start another stream at their end let an engine go",
          "[engine][handlers]") {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ended{0};
    std::atomic<int> started{0};
    {
      std::function<void()> start;  // the engine uses it to its own end
      Engine engine(scripted_engine({}));
      start = [&] {
        ++started;
        (void)engine.generate(
            request_for("again", 20),
            [&](const Event& event) {
              if (!is_terminal(event)) return;
              ++ended;
              // An engine that goes down takes nothing more, and neither do they ask.
              const auto* done = std::get_if<DoneEvent>(&event);
              if (done != nullptr && done->rule == StopRule::kMaxNewTokens) start();
            },
            Delivery::kOnReturn);
      };
      for (int i = 0; i < 16; ++i) start();
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
    }
    CHECK(ended == started);
  }
}

TEST_CASE("handles that outlive their engine steer nothing", "[engine][handlers]") {
  std::vector<StreamHandle> handles;
  std::vector<std::shared_ptr<StreamLog>> logs;
  {
    ScriptedEngineOptions options;
    options.per_step = std::chrono::microseconds(50);
    Engine engine(scripted_engine(options));
    for (int i = 0; i < 40; ++i) {
      logs.push_back(std::make_shared<StreamLog>());
      handles.push_back(
          engine.generate(request_for("outlived", 400), recorder(logs.back()),
                          i % 2 == 0 ? Delivery::kOnReturn : Delivery::kAcknowledged));
    }
    REQUIRE(logs.front()->wait_for_tokens(1));
  }
  for (const auto& log : logs) {
    CHECK(log->sound());
    CHECK(log->wait_for_destruction());
  }
  for (StreamHandle& handle : handles) {
    handle.delivered(1000);
    handle.pause();
    handle.change({.max_new_tokens = 5});
    handle.cancel("late");
    handle.listener_gone();
    handle = {};
  }
}

}  // namespace
