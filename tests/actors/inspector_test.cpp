// A look at every actor of a whole engine.
#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <string>

#include "actors/engine.hpp"
#include "actors/step_recorder.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

EngineView look(Engine& engine) {
  auto promise = std::make_shared<std::promise<EngineView>>();
  auto future = promise->get_future();
  engine.inspect([promise](EngineView view) { promise->set_value(std::move(view)); });
  return future.get();
}

std::size_t count(const EngineView& view, const std::string& name) {
  return static_cast<std::size_t>(std::count_if(
      view.actors.begin(), view.actors.end(), [&](const ActorView& a) { return a.name == name; }));
}

TEST_CASE("a look at an idle engine finds its actors and an empty pool", "[engine]") {
  Engine engine(scripted_engine({}));
  const EngineView view = look(engine);
  for (const char* name : {"supervisor", "scheduler", "kv_manager", "executor"}) {
    INFO(name);
    CHECK(count(view, name) == 1);
  }
  CHECK(count(view, "session") == 0);
  CHECK(view.sequences.empty());
  CHECK(view.steps.empty());
  CHECK(view.blocks.size() == static_cast<std::size_t>(engine.stats().kv.total));
}

TEST_CASE("a look at a paused stream finds its blocks its steps and what is held back",
          "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  look(engine);  // from here on steps are recorded
  GenerateRequest request;
  request.input = std::string("Once");
  request.stop.max_new_tokens = 400;
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle = engine.generate(request, recorder(log), Delivery::kAcknowledged);
  // Nothing is acknowledged: the stream stands still when its credit is used up.
  EngineView view;
  REQUIRE(eventually([&] {
    view = look(engine);
    return view.sequences.size() == 1 && view.sequences[0].phase == SequencePhase::kPaused;
  }));
  CHECK(view.sequences[0].id == handle.id());
  CHECK(count(view, "session") == 1);
  REQUIRE(view.streams.size() == 1);
  CHECK(view.streams[0].sequence == handle.id());
  const auto owned = static_cast<std::int32_t>(std::count_if(
      view.blocks.begin(), view.blocks.end(),
      [&](const auto& block) { return block.owners == 1 && block.first_owner == handle.id(); }));
  CHECK(owned == engine.stats().kv.used);
  CHECK(owned > 0);
  Position fed = 0;
  for (const StepView& step : view.steps) {
    REQUIRE(step.slices.size() == 1);
    CHECK(step.slices[0].sequence == handle.id());
    fed += step.slices[0].tokens;
  }
  CHECK(fed == view.sequences[0].computed);
  handle.listener_gone();
}

TEST_CASE("the last look of an engine that ends is answered", "[engine]") {
  std::promise<void> answered;
  {
    Engine engine(scripted_engine({}));
    engine.shutdown(std::chrono::milliseconds(0));
    engine.inspect([&](const EngineView&) { answered.set_value(); });
  }
  CHECK(answered.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
}

TEST_CASE("steps are recorded only while somebody looks", "[engine]") {
  StepRecorder recorder;
  const auto run = [&](std::uint64_t number) {
    StepBatch batch;
    batch.number = number;
    batch.slices.resize(1);
    recorder.begin(batch);
    StepResult result;
    result.number = number;
    result.duration = std::chrono::nanoseconds(1);
    recorder.end(result);
  };
  run(1);
  CHECK(recorder.steps().empty());
  recorder.arm();
  run(2);
  REQUIRE(recorder.steps().size() == 1);
  for (std::uint64_t i = 3; i < 3 + StepRecorder::kKept; ++i) run(i);
  CHECK(recorder.steps().size() == StepRecorder::kKept);
  CHECK(recorder.steps().back().number == 2 + StepRecorder::kKept);
  for (std::uint64_t i = 0; i < StepRecorder::kArmedFor; ++i) run(1000 + i);
  CHECK(recorder.steps().empty());
}

}  // namespace
