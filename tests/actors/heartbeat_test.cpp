// Silence has a limit: heartbeats on a clock that the test moves, an hour in a millisecond.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/actors/virtual_engine.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;
using std::chrono::seconds;

std::vector<HeartbeatEvent> heartbeats(const StreamLog& log) {
  std::vector<HeartbeatEvent> found;
  for (const Event& event : log.events()) {
    if (const auto* beat = std::get_if<HeartbeatEvent>(&event)) found.push_back(*beat);
  }
  return found;
}

GenerateRequest request_for(std::size_t prompt_tokens, Position max_new_tokens) {
  GenerateRequest request;
  request.input = std::string(prompt_tokens - 1, 'x');
  request.stop.max_new_tokens = max_new_tokens;
  return request;
}

TEST_CASE("a prefill of a minute in ten steps says how far it has come", "[heartbeat]") {
  VirtualEngine* machine = nullptr;
  VirtualEngineOptions options;
  options.heartbeat_interval = seconds(10);
  options.queue_deadline = seconds(30);  // the queue is left long before that passes
  options.during_step = [&machine](const StepBatch&) {
    machine->scheduler().advance_time(seconds(6));
  };
  VirtualEngine engine(options);
  machine = &engine;
  const VirtualStream stream = engine.open(request_for(80, 3), Delivery::kOnReturn);
  engine.run();
  CHECK(stream.log->sound());
  CHECK(stream.log->outcome() == "max_new_tokens");
  const auto beats = heartbeats(*stream.log);
  CHECK(beats.size() >= 4);  // 60 s, one each 10 s or the step after
  CHECK(beats.size() <= 7);
  Position before = 0;
  for (const HeartbeatEvent& beat : beats) {
    if (beat.phase != "prefill") continue;
    CHECK(beat.prefill_done > before);
    CHECK(beat.prefill_total == 80);
    before = beat.prefill_done;
  }
  CHECK(before >= 48);
}

TEST_CASE("a single step of a minute does not silence the streams", "[heartbeat]") {
  VirtualEngine* machine = nullptr;
  VirtualEngineOptions options;
  options.heartbeat_interval = seconds(10);
  options.during_step = [&machine](const StepBatch& batch) {
    if (batch.number != 2) return;
    for (int i = 0; i < 60; ++i) {  // everybody else goes on meanwhile
      machine->scheduler().advance_time(seconds(1));
      machine->run();
    }
  };
  VirtualEngine engine(options);
  machine = &engine;
  const VirtualStream stream = engine.open(request_for(40, 3), Delivery::kOnReturn);
  const VirtualStream other = engine.open(request_for(20, 3), Delivery::kOnReturn);
  engine.run();
  for (const VirtualStream* each : {&stream, &other}) {
    CHECK(each->log->sound());
    CHECK(each->log->outcome() == "max_new_tokens");
    CHECK(heartbeats(*each->log).size() == 6);
  }
}

TEST_CASE("heartbeats go on through the queue and a pause", "[heartbeat]") {
  VirtualEngineOptions options;
  options.max_running = 1;
  options.heartbeat_interval = seconds(10);
  VirtualEngine engine(options);
  const VirtualStream first = engine.open(request_for(10, 20), Delivery::kAcknowledged);
  engine.run();
  const VirtualStream second = engine.open(request_for(10, 20), Delivery::kOnReturn);
  engine.run();
  first.handle.pause();
  for (int i = 0; i < 65; ++i) {
    engine.scheduler().advance_time(seconds(1));
    engine.run();
  }
  const auto paused = heartbeats(*first.log);
  const auto queued = heartbeats(*second.log);
  CHECK(paused.size() == 6);
  CHECK(queued.size() == 6);
  for (const HeartbeatEvent& beat : paused) CHECK(beat.phase == "paused");
  for (const HeartbeatEvent& beat : queued) {
    CHECK(beat.phase == "queued");
    CHECK(beat.queue_position == 1);
  }
  first.handle.cancel("test");
  engine.run();
  CHECK(first.log->sound());
  CHECK(second.log->sound());
  CHECK(second.log->outcome() == "max_new_tokens");
}

TEST_CASE("a time limit passes in queue, prefill and pause", "[heartbeat]") {
  VirtualEngineOptions options;
  options.max_running = 1;
  VirtualEngine engine(options);
  GenerateRequest request = request_for(10, 20);
  request.stop.time_limit = seconds(100);
  const VirtualStream first = engine.open(request, Delivery::kAcknowledged);
  engine.run();
  const VirtualStream second = engine.open(request, Delivery::kAcknowledged);
  first.handle.pause();
  engine.run();
  for (int i = 0; i < 99; ++i) {
    engine.scheduler().advance_time(seconds(1));
    engine.run();
  }
  CHECK(first.log->terminals() == 0);
  CHECK(second.log->terminals() == 0);
  engine.scheduler().advance_time(seconds(2));
  engine.run();
  CHECK(first.log->outcome() == "time_limit");
  CHECK(second.log->outcome() == "time_limit");
  CHECK(engine.board->read().kv.used == 0);
}

TEST_CASE("a request expires in the queue on the same clock", "[heartbeat]") {
  VirtualEngineOptions options;
  options.max_running = 1;
  options.queue_deadline = seconds(30);
  VirtualEngine engine(options);
  const VirtualStream first = engine.open(request_for(10, 20), Delivery::kAcknowledged);
  engine.run();
  const VirtualStream second = engine.open(request_for(10, 20), Delivery::kAcknowledged);
  engine.run();
  engine.scheduler().advance_time(seconds(29));
  engine.run();
  CHECK(second.log->terminals() == 0);
  engine.scheduler().advance_time(seconds(2));
  engine.run();
  CHECK(second.log->outcome() == "error:queue_timeout");
  CHECK(first.log->terminals() == 0);
}

}  // namespace
