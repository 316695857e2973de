// A backend that fails is replaced, and the streams never know.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/engine.hpp"
#include "engine/base/error.hpp"
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

ScriptedEngineOptions quick_restarts() {
  ScriptedEngineOptions options;
  options.config.restart.first_pause = std::chrono::milliseconds(1);
  return options;
}

struct Streams {
  std::vector<GenerateRequest> requests;
  std::vector<std::string> expected;
  std::vector<std::shared_ptr<StreamLog>> logs;
  std::vector<StreamHandle> handles;

  Streams(const ScriptedEngineOptions& options, int count) {
    ScriptedEngineOptions unharmed = options;
    unharmed.steps_until_fatal = nullptr;
    for (int i = 0; i < count; ++i) {
      requests.push_back(request_for("stream " + std::to_string(i * i), 60 + i * 5));
      expected.push_back(text_alone(scripted_engine(unharmed), requests.back()));
    }
  }
  void start(Engine& engine) {
    for (const GenerateRequest& request : requests) {
      logs.push_back(std::make_shared<StreamLog>());
      handles.push_back(engine.generate(request, recorder(logs.back()), Delivery::kOnReturn));
    }
  }
  void check_complete() const {
    for (std::size_t i = 0; i < logs.size(); ++i) {
      REQUIRE(logs[i]->wait_for_end());
      CHECK(logs[i]->sound());
      CHECK(logs[i]->outcome() == "max_new_tokens");
      CHECK(logs[i]->text() == expected[i]);
    }
  }
};

TEST_CASE("a fatal step in the middle of 8 streams changes nothing", "[engine]") {
  for (const int fatal_at : {1, 2, 7, 30, 61}) {
    ScriptedEngineOptions options = quick_restarts();
    options.steps_until_fatal = std::make_shared<std::atomic<int>>(fatal_at);
    Streams streams(options, 8);
    Engine engine(scripted_engine(options));
    streams.start(engine);
    streams.check_complete();
    CHECK(engine.stats().executor_restarts == 1);
    CHECK(engine.stats().ready);
    REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
    CHECK(engine.stats().streams_finished.at("max_new_tokens") == 8);
  }
}

TEST_CASE("a restart with more streams than the queue holds turns none away", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.config.scheduler.max_running = 4;
  options.config.scheduler.max_waiting = 4;
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(-1);
  Streams streams(options, 8);
  ScriptedEngineOptions slow = options;
  slow.per_step = std::chrono::microseconds(500);
  Engine engine(scripted_engine(slow));
  // Four run and four wait; after the restart all eight want to queue.
  for (std::size_t i = 0; i < 8; ++i) {
    streams.logs.push_back(std::make_shared<StreamLog>());
    streams.handles.push_back(
        engine.generate(streams.requests[i], recorder(streams.logs.back()), Delivery::kOnReturn));
    if (i < 4) REQUIRE(streams.logs.back()->wait_for_tokens(1));
  }
  *options.steps_until_fatal = 3;
  streams.check_complete();
  CHECK(engine.stats().executor_restarts == 1);
}

TEST_CASE("a paused and a slow stream survive a restart", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.config.credit_window = 4;
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(-1);
  Engine engine(scripted_engine(options));
  Streams streams(options, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    streams.logs.push_back(std::make_shared<StreamLog>());
    streams.handles.push_back(
        engine.generate(streams.requests[i], recorder(streams.logs[i]),
                        i == 0 ? Delivery::kAcknowledged : Delivery::kOnReturn));
    if (i == 1) streams.handles[1].pause();
    if (i == 1) REQUIRE(eventually([&] { return !streams.logs[1]->events().empty(); }));
  }
  REQUIRE(streams.logs[2]->wait_for_end());
  REQUIRE(streams.logs[0]->wait_for_tokens(4));
  *options.steps_until_fatal = 1;
  Streams trigger(options, 1);  // somebody has to take the step that fails
  trigger.start(engine);
  trigger.check_complete();
  CHECK(engine.stats().executor_restarts == 1);

  CHECK(streams.logs[0]->ids().size() == 4);
  CHECK(streams.logs[1]->terminals() == 0);
  streams.handles[1].resume();
  REQUIRE(eventually([&] {
    streams.handles[0].delivered(streams.logs[0]->last_number());
    return streams.logs[0]->terminals() > 0;
  }));
  streams.handles[0].delivered(streams.logs[0]->last_number());
  streams.check_complete();
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
}

TEST_CASE("too many failures end every stream with backend_failed", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(5);
  PreparedEngine prepared = scripted_engine(options);
  const auto made = std::make_shared<std::atomic<int>>(0);
  prepared.make_backend = [make = prepared.make_backend, counter = options.steps_until_fatal,
                           made] {
    ++*made;
    *counter = 5;
    return make();
  };
  Engine engine(std::move(prepared));
  Streams streams(quick_restarts(), 8);
  streams.start(engine);
  for (const auto& log : streams.logs) {
    REQUIRE(log->wait_for_end());
    CHECK(log->sound());
    CHECK(log->outcome() == "error:backend_failed");
    CHECK(!log->error_message().empty());
  }
  CHECK(*made == 4);  // the first and three restarts
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  CHECK(!engine.stats().ready);
  CHECK(engine.stats().executor_restarts == 3);
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  CHECK(engine.stats().scheduler.running + engine.stats().scheduler.waiting == 0);

  auto late = std::make_shared<StreamLog>();
  (void)engine.generate(request_for("too late", 5), recorder(late), Delivery::kOnReturn);
  REQUIRE(late->wait_for_end());
  CHECK(late->outcome() == "error:backend_failed");
  CHECK(late->sound());
}

TEST_CASE("what was shown before the last failure is a prefix of the answer", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.config.restart.max_restarts = 0;
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(20);
  Engine engine(scripted_engine(options));
  Streams streams(quick_restarts(), 4);
  streams.start(engine);
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(streams.logs[i]->wait_for_end());
    CHECK(streams.logs[i]->outcome() == "error:backend_failed");
    CHECK(streams.expected[i].starts_with(streams.logs[i]->text()));
  }
}

/// Counts how many backends hold memory at the same time.
class CountedBackend final : public Backend {
 public:
  CountedBackend(std::unique_ptr<Backend> inner, std::shared_ptr<std::atomic<int>> alive)
      : inner_(std::move(inner)), alive_(std::move(alive)) {
    ++*alive_;
  }
  ~CountedBackend() override { --*alive_; }
  void allocate_pool(const KvPoolShape& shape) override { inner_->allocate_pool(shape); }
  StepResult step(const StepBatch& batch) noexcept override { return inner_->step(batch); }
  BackendMemory memory() const override { return inner_->memory(); }
  std::string description() const override { return inner_->description(); }

 private:
  std::unique_ptr<Backend> inner_;
  std::shared_ptr<std::atomic<int>> alive_;
};

TEST_CASE("two backends never hold memory at the same time", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.config.restart.max_restarts = 20;
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(8);
  PreparedEngine prepared = scripted_engine(options);
  const auto alive = std::make_shared<std::atomic<int>>(0);
  const auto most = std::make_shared<std::atomic<int>>(0);
  const auto made = std::make_shared<std::atomic<int>>(0);
  prepared.make_backend = [make = prepared.make_backend, counter = options.steps_until_fatal, alive,
                           most, made]() -> std::unique_ptr<Backend> {
    auto backend = std::make_unique<CountedBackend>(make(), alive);
    *most = std::max(most->load(), alive->load());
    if (++*made < 6) *counter = 8;
    return backend;
  };
  {
    Engine engine(std::move(prepared));
    Streams streams(quick_restarts(), 6);
    streams.start(engine);
    streams.check_complete();
    CHECK(engine.stats().executor_restarts >= 5);
  }
  CHECK(*most == 1);
  CHECK(*alive == 0);
}

TEST_CASE("a backend that can not be made at once is tried again", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(10);
  PreparedEngine prepared = scripted_engine(options);
  const auto calls = std::make_shared<std::atomic<int>>(0);
  prepared.make_backend = [make = prepared.make_backend, calls]() -> std::unique_ptr<Backend> {
    if (++*calls == 2) throw Error(ErrorCode::kDoesNotFit, "No memory just now.");
    return make();
  };
  Streams streams(options, 4);
  Engine engine(std::move(prepared));
  streams.start(engine);
  streams.check_complete();
  CHECK(*calls == 3);
  CHECK(engine.stats().executor_restarts == 1);
}

/// A factory that can't be copied any more once `broken` is set: an exception in the supervisor.
struct BreakingFactory {
  std::function<std::unique_ptr<Backend>()> make;
  std::shared_ptr<std::atomic<bool>> broken;

  BreakingFactory(std::function<std::unique_ptr<Backend>()> factory,
                  std::shared_ptr<std::atomic<bool>> flag)
      : make(std::move(factory)), broken(std::move(flag)) {}
  BreakingFactory(const BreakingFactory& other) : make(other.make), broken(other.broken) {
    if (*broken) throw std::runtime_error("no more copies");
  }
  std::unique_ptr<Backend> operator()() const { return make(); }
};

TEST_CASE("a supervisor that breaks leaves no stream and no engine waiting", "[engine]") {
  ScriptedEngineOptions options = quick_restarts();
  options.steps_until_fatal = std::make_shared<std::atomic<int>>(15);
  const auto broken = std::make_shared<std::atomic<bool>>(false);
  PreparedEngine prepared = scripted_engine(options);
  prepared.make_backend = BreakingFactory(prepared.make_backend, broken);
  Engine engine(std::move(prepared));
  *broken = true;
  Streams streams(quick_restarts(), 4);
  streams.start(engine);
  for (const auto& log : streams.logs) {
    REQUIRE(log->wait_for_end());
    CHECK(log->sound());
    CHECK(log->outcome() == "error:backend_failed");
  }
  CHECK(!engine.stats().ready);
  auto late = std::make_shared<StreamLog>();
  (void)engine.generate(request_for("too late", 5), recorder(late), Delivery::kOnReturn);
  REQUIRE(late->wait_for_end());
  CHECK(late->sound());
  engine.shutdown(std::chrono::milliseconds(0));
}

TEST_CASE("an engine whose backend can not be made throws what it threw", "[engine]") {
  PreparedEngine prepared = scripted_engine({});
  prepared.make_backend = []() -> std::unique_ptr<Backend> {
    throw Error(ErrorCode::kDoesNotFit, "The pool needs 3 GiB more; lower --context.");
  };
  try {
    const Engine engine(std::move(prepared));
    FAIL("no exception");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kDoesNotFit);
    CHECK(std::string(error.what()) == "The pool needs 3 GiB more; lower --context.");
  }
}

}  // namespace
