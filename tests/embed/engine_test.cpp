// The public engine with callbacks: events, steering, errors as they leave the library, and what
// outlives what.
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "embed/engine_core.hpp"
#include "sluice/engine.hpp"
#include "tests/embed/listener.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scripted_engine.hpp"

namespace {

using namespace sluice;
using test::Listener;

v0::Engine scripted(const test::ScriptedEngineOptions& options = {}) {
  return embed::Access::make_engine(test::scripted_engine(options));
}

v0::Request request_for(std::string prompt, std::int32_t max_new_tokens) {
  v0::Request request;
  request.input = std::move(prompt);
  request.stop.max_new_tokens = max_new_tokens;
  return request;
}

TEST_CASE("a stream says accepted and tokens and done") {
  v0::Engine engine = scripted();
  Listener listener;
  const v0::Stream stream = engine.generate(request_for("abc", 20), listener.handler());
  CHECK(stream);
  CHECK(stream.id() != 0);
  listener.wait_for_end();
  const auto events = listener.events();
  const auto& accepted = std::get<v0::AcceptedEvent>(events.front());
  CHECK(accepted.number == 1);
  CHECK(accepted.prompt_tokens == 4);
  CHECK(accepted.max_new_tokens == 20);
  CHECK(accepted.model == "Scripted");
  CHECK(listener.text().size() == 20);
  const auto& done = std::get<v0::DoneEvent>(events.back());
  CHECK(done.rule == v0::StopRule::kMaxNewTokens);
  CHECK(done.usage.completion_tokens == 20);
  CHECK(engine.info().model_name == "Scripted");
  CHECK(engine.prompt_tokens(request_for("ab", 1)) == std::vector<v0::TokenId>{256, 'a', 'b'});
  CHECK(engine.token_text('x') == "x");
  CHECK(engine.stats().streams_started == 1);
}

TEST_CASE("a stream is paused and resumed and changed and cancelled by its handle") {
  test::ScriptedEngineOptions options;
  options.context = 4096;
  options.num_blocks = 4096;
  v0::Engine engine = scripted(options);
  Listener listener;
  v0::Request request = request_for("abc", 4000);
  const v0::Stream stream =
      engine.generate(request, listener.handler(), v0::Delivery::kAcknowledged);
  listener.wait_for_text(16);  // the credit; nothing was acknowledged
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(listener.text().size() == 16);

  stream.pause();
  stream.delivered(listener.last_number());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(listener.text().size() == 16);
  stream.resume();
  listener.wait_for_text(17);

  stream.change({.max_new_tokens = 24});
  listener.acknowledge(stream);
  listener.wait_for_end();
  CHECK(std::get<v0::DoneEvent>(listener.events().back()).rule == v0::StopRule::kMaxNewTokens);
  CHECK(listener.text().size() <= 32);

  Listener other;
  const v0::Stream second = engine.generate(request, other.handler());
  other.wait_for_text(1);
  second.cancel("no more");
  other.wait_for_end();
  const auto done = std::get<v0::DoneEvent>(other.events().back());
  CHECK(done.rule == v0::StopRule::kCancelled);
  CHECK(done.detail == "no more");
}

TEST_CASE("errors leave the library as its own exception") {
  const auto code_of = [](auto&& call) {
    try {
      call();
    } catch (const v0::Error& error) {
      CHECK(std::string(error.what()).size() > 10);
      return to_string(error.code());
    }
    return std::string("none");
  };
  v0::Config config;
  config.model = "/no/such/model.gguf";
  CHECK(code_of([&] { v0::Engine engine(config); }) == "not_found");
  CHECK(code_of([&] { (void)plan(config); }) == "not_found");
  config.model = test::source_dir() / "README.md";
  CHECK(code_of([&] { v0::Engine engine(config); }) != "none");
  config.model = test::source_dir() / "models/demo-q8_0.gguf";
  config.kv_type = "q77";
  CHECK(code_of([&] { (void)plan(config); }) == "invalid_argument");
  config.kv_type = "f16";
  config.memory_limit_bytes = 1 << 20;
  CHECK(code_of([&] { v0::Engine engine(config); }) == "does_not_fit");

  v0::Engine engine = scripted();
  CHECK(code_of([&] { (void)engine.prompt_tokens(request_for(std::string(600, 'x'), 1)); }) ==
        "invalid_argument");
  Listener listener;
  const v0::Stream stream = engine.generate(request_for("abc", 400), listener.handler());
  CHECK(code_of([&] { stream.change({.temperature = -1.0F}); }) == "invalid_argument");
  listener.wait_for_end();
}

TEST_CASE("a plan says what an engine takes") {
  v0::Config config;
  config.model = test::source_dir() / "models/demo-q8_0.gguf";
  config.context = 128;
  config.sequences = 2;
  const v0::Plan plan = v0::plan(config);
  CHECK(plan.context == 128);
  CHECK(plan.sequences == 2);
  CHECK(plan.weights_bytes > 1000000);
  CHECK(plan.kv_pool_bytes >= plan.kv_bytes_per_token * 256);
  CHECK(plan.table.find("128") != std::string::npos);
}

TEST_CASE("a handler that throws ends its own stream") {
  v0::Engine engine = scripted();
  Listener neighbour;
  engine.generate(request_for("neighbour", 100), neighbour.handler());
  std::promise<void> destroyed;
  std::shared_ptr<void> guard(nullptr, [&](void*) { destroyed.set_value(); });
  engine.generate(request_for("abc", 100), [guard](const v0::Event& event) {
    if (std::holds_alternative<v0::TokenEvent>(event)) throw std::runtime_error("not again");
  });
  guard.reset();
  destroyed.get_future().wait();
  neighbour.wait_for_end();
  CHECK(neighbour.text().size() == 100);
}

TEST_CASE("several engines live side by side and handles outlive them") {
  v0::Stream orphan;
  Listener first;
  Listener second;
  {
    test::ScriptedEngineOptions slow;
    slow.per_token = std::chrono::milliseconds(1);
    v0::Engine one = scripted(slow);
    v0::Engine two = scripted();
    orphan = one.generate(request_for("abc", 500), first.handler());
    (void)two.generate(request_for("abc", 50), second.handler());
    second.wait_for_end();
    first.wait_for_text(1);
    v0::Engine moved = std::move(one);
    CHECK(moved.stats().streams == 1);
    one = std::move(two);
    CHECK(one.info().model_name == "Scripted");
  }
  CHECK(first.ended());  // before the destructor returned
  CHECK(std::get<v0::DoneEvent>(first.events().back()).rule == v0::StopRule::kCancelled);
  orphan.cancel("too late");
  orphan.pause();
  orphan.change({.max_new_tokens = 3});
  CHECK_FALSE(v0::Stream());
  v0::Stream().cancel();
}

TEST_CASE("an engine that shuts down refuses new streams with one error") {
  v0::Engine engine = scripted();
  Listener running;
  engine.generate(request_for("abc", 300), running.handler());
  running.wait_for_text(1);
  engine.shutdown(std::chrono::seconds(20));
  CHECK(running.ended());
  CHECK(running.text().size() == 300);
  Listener late;
  engine.generate(request_for("abc", 3), late.handler());
  late.wait_for_end();
  REQUIRE(late.events().size() == 1);
  CHECK(std::get<v0::ErrorEvent>(late.events().front()).code == "shutting_down");
}

TEST_CASE("an abandoned stream says nothing more and lets go of its handler") {
  test::ScriptedEngineOptions slow;
  slow.per_token = std::chrono::milliseconds(1);
  v0::Engine engine = scripted(slow);
  std::promise<void> destroyed;
  std::shared_ptr<void> guard(nullptr, [&](void*) { destroyed.set_value(); });
  std::atomic<bool> terminal{false};
  const v0::Stream stream =
      engine.generate(request_for("abc", 500), [&terminal, guard](const v0::Event& event) {
        if (is_terminal(event)) terminal = true;
      });
  guard.reset();
  stream.abandon();
  destroyed.get_future().wait();
  CHECK_FALSE(terminal);
}

}  // namespace
