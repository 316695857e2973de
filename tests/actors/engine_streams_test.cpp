// Whole engines with a scripted backend: streams that run to their end.
#include <catch2/catch.hpp>
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

TEST_CASE("one stream gives what the engine loop gives", "[engine]") {
  ScriptedEngineOptions options;
  const GenerateRequest request = request_for("Once", 100);
  const std::string expected = text_alone(scripted_engine(options), request);
  REQUIRE(expected.size() == 100);

  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  const StreamHandle handle = engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(handle);
  REQUIRE(log->wait_for_end());
  REQUIRE(log->wait_for_destruction());
  CHECK(log->sound());
  CHECK(log->text() == expected);
  CHECK(log->outcome() == "max_new_tokens");
  const auto accepted = std::get<AcceptedEvent>(log->events().front());
  CHECK(accepted.prompt_tokens == 5);
  CHECK(accepted.max_new_tokens == 100);
  CHECK(accepted.context_length == 512);
  CHECK(log->done().usage.prompt_tokens == 5);
  CHECK(log->done().usage.completion_tokens == 100);

  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  const EngineStats stats = engine.stats();
  CHECK(stats.ready);
  CHECK(stats.streams_started == 1);
  CHECK(stats.streams_finished == std::map<std::string, std::uint64_t>{{"max_new_tokens", 1}});
  CHECK(stats.scheduler.generated_tokens >= 100);
  CHECK(stats.histograms.ttft_seconds.count() == 1);
}

TEST_CASE("the end token ends a stream and a chat is rendered", "[engine]") {
  ScriptedEngineOptions options;
  options.next_token = ending_script(40);
  Engine engine(scripted_engine(options));
  GenerateRequest request;
  request.input = std::vector<ChatMessage>{{"user", "Hello!"}};
  const std::string expected = text_alone(scripted_engine(options), request);
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "end_token");
  CHECK(log->text() == expected);
  CHECK(log->done().matched_token == ByteTokenizer::kEos);
}

TEST_CASE("an ignored end token does not hold the stream up", "[engine]") {
  ScriptedEngineOptions options;
  options.next_token = ending_script(10);
  Engine engine(scripted_engine(options));
  GenerateRequest request = request_for("x", 200);
  request.stop.ignore_end_tokens = true;
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->outcome() == "max_new_tokens");
}

TEST_CASE("a stop string ends a stream where it begins", "[engine]") {
  ScriptedEngineOptions options;
  options.next_token = repeating_script("one two three. ", 2);
  Engine engine(scripted_engine(options));
  GenerateRequest request = request_for("x", 200);
  request.stop.stop_strings = {{.text = "three. one"}};
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(log->sound());
  CHECK(log->text() == "one two ");
  CHECK(log->outcome() == "stop_string");
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
}

TEST_CASE("64 streams at once give what each gives alone", "[engine]") {
  ScriptedEngineOptions options;
  options.next_token = ending_script(200);
  options.config.plan.max_batch_tokens = 96;
  options.config.scheduler.prefill_chunk = 17;
  const PreparedEngine prepared = scripted_engine(options);

  std::mt19937 random(7);
  std::vector<GenerateRequest> requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 64; ++i) {
    std::string prompt(1 + random() % 120, 'a');
    for (char& c : prompt) c = static_cast<char>('a' + random() % 26);
    GenerateRequest request = request_for(prompt, static_cast<Position>(20 + random() % 200));
    request.seed = random();
    expected.push_back(text_alone(prepared, request));
    requests.push_back(std::move(request));
  }

  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (const GenerateRequest& request : requests) {
    logs.push_back(std::make_shared<StreamLog>());
    (void)engine.generate(request, recorder(logs.back()), Delivery::kOnReturn);
  }
  for (std::size_t i = 0; i < logs.size(); ++i) {
    REQUIRE(logs[i]->wait_for_end());
    CHECK(logs[i]->sound());
    CHECK(logs[i]->text() == expected[i]);
    CHECK(std::get<AcceptedEvent>(logs[i]->events().front()).seed == *requests[i].seed);
  }
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
  CHECK(engine.stats().kv.sequences == 0);
}

TEST_CASE("a pool far too small gives the same text by preemption", "[engine]") {
  ScriptedEngineOptions options;
  options.context = 128;
  options.num_blocks = 40;  // 160 positions for 16 streams of up to 120
  std::vector<GenerateRequest> requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 16; ++i) {
    requests.push_back(request_for("prompt number " + std::to_string(i), 60 + i * 3));
    expected.push_back(text_alone(scripted_engine(options), requests.back()));
  }
  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> logs;
  for (const GenerateRequest& request : requests) {
    logs.push_back(std::make_shared<StreamLog>());
    (void)engine.generate(request, recorder(logs.back()), Delivery::kOnReturn);
  }
  for (std::size_t i = 0; i < logs.size(); ++i) {
    REQUIRE(logs[i]->wait_for_end());
    CHECK(logs[i]->sound());
    CHECK(logs[i]->text() == expected[i]);
    CHECK(logs[i]->outcome() == "max_new_tokens");
  }
  CHECK(engine.stats().scheduler.preemptions > 0);
  REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
}

TEST_CASE("a second stream with the same prompt finds it in the cache", "[engine]") {
  ScriptedEngineOptions options;
  Engine engine(scripted_engine(options));
  const GenerateRequest request = request_for(std::string(100, 'p'), 20);
  std::string first;
  for (int round = 0; round < 2; ++round) {
    auto log = std::make_shared<StreamLog>();
    (void)engine.generate(request, recorder(log), Delivery::kOnReturn);
    REQUIRE(log->wait_for_end());
    REQUIRE(eventually([&] { return engine.stats().kv.used == 0; }));
    if (round == 0) {
      first = log->text();
      CHECK(log->done().usage.cached_tokens == 0);
    } else {
      CHECK(log->text() == first);
      CHECK(log->done().usage.cached_tokens == 100);
    }
  }
}

TEST_CASE("requests that can not be served get one error", "[engine]") {
  ScriptedEngineOptions options;
  options.context = 64;
  Engine engine(scripted_engine(options));
  const auto outcome_of = [&](const GenerateRequest& request) {
    auto log = std::make_shared<StreamLog>();
    (void)engine.generate(request, recorder(log), Delivery::kAcknowledged);
    REQUIRE(log->wait_for_end());
    REQUIRE(log->wait_for_destruction());
    CHECK(log->sound());
    CHECK(log->events().size() == 1);
    return std::make_pair(log->outcome(), log->error_message());
  };

  const auto too_long = outcome_of(request_for(std::string(80, 'x'), 4));
  CHECK(too_long.first == "error:prompt_too_long");
  CHECK(too_long.second ==
        "The prompt has 81 tokens; this model takes at most 63 and one of output.");
  CHECK(outcome_of(request_for("", 4)).first == "error:invalid_request");
  CHECK(outcome_of(request_for("x", 0)).first == "error:invalid_request");
  GenerateRequest hot = request_for("x", 4);
  hot.sampling.temperature = -1.0F;
  CHECK(outcome_of(hot).first == "error:invalid_request");
  GenerateRequest nobody;
  nobody.input = std::vector<ChatMessage>{{"nobody", "x"}};
  const auto role = outcome_of(nobody);
  CHECK(role.first == "error:invalid_request");
  CHECK(role.second.find("nobody") != std::string::npos);
  REQUIRE(eventually([&] { return engine.stats().sessions == 0; }));
  CHECK(engine.stats().streams_finished.at("error") == 5);
}

TEST_CASE("the maximum is cut to the room that is left", "[engine]") {
  ScriptedEngineOptions options;
  options.context = 64;
  Engine engine(scripted_engine(options));
  auto log = std::make_shared<StreamLog>();
  (void)engine.generate(request_for(std::string(49, 'x'), 1000), recorder(log),
                        Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  CHECK(std::get<AcceptedEvent>(log->events().front()).max_new_tokens == 14);
  CHECK(log->done().usage.completion_tokens == 14);
  CHECK(log->outcome() == "context_full");
  CHECK(log->sound());
}

TEST_CASE("one more than the queue holds is refused", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::milliseconds(2);
  options.config.scheduler.max_running = 1;
  options.config.scheduler.max_waiting = 2;
  Engine engine(scripted_engine(options));
  std::vector<std::shared_ptr<StreamLog>> logs;
  std::vector<StreamHandle> handles;
  for (int i = 0; i < 8; ++i) {
    logs.push_back(std::make_shared<StreamLog>());
    handles.push_back(
        engine.generate(request_for("x", 400), recorder(logs.back()), Delivery::kOnReturn));
    // The first must run before the others queue.
    if (i == 0) REQUIRE(logs.back()->wait_for_tokens(1));
  }
  REQUIRE(eventually([&] {
    const auto finished = engine.stats().streams_finished;
    const auto errors = finished.find("error");
    return errors != finished.end() && errors->second == 5;
  }));
  int refused = 0;
  for (const auto& log : logs) {
    if (log->outcome().empty()) continue;
    CHECK(log->outcome() == "error:queue_full");
    CHECK(log->events().size() == 1);
    ++refused;
  }
  CHECK(refused == 5);
  for (const StreamHandle& handle : handles) handle.cancel("test");
  for (const auto& log : logs) REQUIRE(log->wait_for_end());
}

TEST_CASE("a stream in the queue says how far it has come", "[engine]") {
  ScriptedEngineOptions options;
  options.per_step = std::chrono::milliseconds(1);
  options.config.scheduler.max_running = 1;
  options.config.heartbeat_interval = std::chrono::milliseconds(20);
  Engine engine(scripted_engine(options));
  auto first = std::make_shared<StreamLog>();
  auto second = std::make_shared<StreamLog>();
  const StreamHandle running =
      engine.generate(request_for("x", 500), recorder(first), Delivery::kOnReturn);
  REQUIRE(first->wait_for_tokens(1));
  const StreamHandle queued =
      engine.generate(request_for("y", 5), recorder(second), Delivery::kOnReturn);
  REQUIRE(eventually([&] { return second->heartbeats() > 0; }));
  for (const Event& event : second->events()) {
    if (const auto* beat = std::get_if<HeartbeatEvent>(&event)) {
      CHECK(beat->phase == "queued");
      CHECK(beat->queue_position == 1);
      break;
    }
  }
  running.cancel("enough");
  REQUIRE(second->wait_for_end());
  CHECK(second->outcome() == "max_new_tokens");
  CHECK(second->sound());
}

}  // namespace
