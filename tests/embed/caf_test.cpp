// The engine in an actor system of the caller: ends as monitors see them, sinks that are slow or
// die, and failures to load.
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sluice/caf.hpp"
#include "tests/support/paths.hpp"

namespace {

using namespace sluice;

v0::Config demo() {
  v0::Config config;
  config.model = test::source_dir() / "models/demo-q8_0.gguf";
  config.context = 256;
  config.sequences = 8;
  return config;
}

v0::Request request_for(std::string prompt, std::int32_t max_new_tokens) {
  v0::Request request;
  request.input = std::move(prompt);
  request.sampling.temperature = 0.0F;
  request.stop.max_new_tokens = max_new_tokens;
  request.stop.ignore_end_tokens = true;
  return request;
}

/// What a sink heard, from any thread.
struct Heard {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<v0::Event> events;

  void add(const v0::Event& event) {
    const std::lock_guard lock(mutex);
    events.push_back(event);
    changed.notify_all();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex);
    return events.size();
  }
  bool wait_for(std::size_t number) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(60),
                            [&] { return events.size() >= number; });
  }
  std::vector<v0::Event> wait_for_end() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60),
                     [&] { return !events.empty() && is_terminal(events.back()); });
    return events;
  }
};

class Sink final : public v0::SinkRef::base {
 public:
  Sink(caf::actor_config& config, std::shared_ptr<Heard> heard, std::size_t dies_at)
      : typed_event_based_actor(config), heard_(std::move(heard)), dies_at_(dies_at) {}

 protected:
  behavior_type make_behavior() override {
    return {[this](v0::event_atom, v0::StreamId, const v0::Event& event) {
      heard_->add(event);
      if (heard_->count() == dies_at_) quit(caf::exit_reason::kill);
    }};
  }

 private:
  std::shared_ptr<Heard> heard_;
  std::size_t dies_at_;
};

/// Takes the first event and never says that it has.
class Mute final : public v0::SinkRef::base {
 public:
  Mute(caf::actor_config& config, std::shared_ptr<Heard> heard)
      : typed_event_based_actor(config), heard_(std::move(heard)) {}

 protected:
  behavior_type make_behavior() override {
    return {[this](v0::event_atom, v0::StreamId, const v0::Event& event) -> caf::result<void> {
      heard_->add(event);
      promises_.push_back(make_response_promise());
      return caf::delegated<void>();
    }};
  }
  void on_exit() override { promises_.clear(); }

 private:
  std::shared_ptr<Heard> heard_;
  std::vector<caf::response_promise> promises_;
};

struct Program {
  caf::actor_system_config settings;
  std::unique_ptr<caf::actor_system> system;
  v0::EngineRef engine;
  std::unique_ptr<caf::scoped_actor> self;

  explicit Program(const v0::Config& config = demo(), bool tuned = true) {
    if (tuned) v0::tune(settings);
    system = std::make_unique<caf::actor_system>(settings);
    self = std::make_unique<caf::scoped_actor>(*system);
    engine = v0::spawn_engine(*system, config);
  }
  ~Program() {
    caf::anon_send_exit(engine, caf::exit_reason::user_shutdown);
    engine = nullptr;
    self.reset();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  v0::StreamRef generate(const v0::Request& request, const v0::SinkRef& sink) {
    v0::StreamRef stream;
    (*self)
        ->request(engine, caf::infinite, v0::generate_atom::value, request, sink)
        .receive([&](v0::StreamRef& answer) { stream = std::move(answer); },
                 [](const caf::error& error) { FAIL(v0::describe(error)); });
    return stream;
  }
  /// How the actor ended.
  template <class Handle>
  caf::error end_of(const Handle& actor) {
    caf::error reason;
    (*self)->monitor(actor);
    (*self)->receive([&](caf::down_msg& down) { reason = std::move(down.reason); });
    return reason;
  }
};

TEST_CASE("a sink hears a stream and a monitor its end") {
  for (const bool tuned : {true, false}) {
    Program program(demo(), tuned);
    auto heard = std::make_shared<Heard>();
    const auto sink = program.system->spawn<Sink>(heard, 0U);
    const v0::StreamRef stream = program.generate(request_for("Once upon a time", 20), sink);
    const auto events = heard->wait_for_end();
    REQUIRE(events.size() >= 3);
    CHECK(std::holds_alternative<v0::AcceptedEvent>(events.front()));
    const auto& done = std::get<v0::DoneEvent>(events.back());
    CHECK(done.usage.completion_tokens == 20);
    CHECK_FALSE(program.end_of(stream));
    (*program.self)
        ->request(program.engine, caf::infinite, v0::stats_atom::value)
        .receive([](const v0::Stats& stats) { CHECK(stats.streams_started == 1); },
                 [](const caf::error& error) { FAIL(v0::describe(error)); });
    caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
  }
}

TEST_CASE("a request that can not be served ends its stream with the error") {
  Program program;
  auto heard = std::make_shared<Heard>();
  const auto sink = program.system->spawn<Sink>(heard, 0U);
  std::string prompt;
  for (int i = 0; i < 600; ++i) prompt += "word ";
  const v0::StreamRef stream = program.generate(request_for(prompt, 20), sink);
  const auto events = heard->wait_for_end();
  REQUIRE(events.size() == 1);
  CHECK(std::get<v0::ErrorEvent>(events.front()).code == "prompt_too_long");
  const caf::error reason = program.end_of(stream);
  CHECK(reason);
  caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
}

TEST_CASE("a sink that does not answer holds up its own stream alone") {
  Program program;
  auto silent = std::make_shared<Heard>();
  auto heard = std::make_shared<Heard>();
  const auto mute = program.system->spawn<Mute>(silent);
  const auto sink = program.system->spawn<Sink>(heard, 0U);
  const v0::StreamRef held = program.generate(request_for("Once upon a time", 200), mute);
  (void)program.generate(request_for("One day", 100), sink);
  const auto events = heard->wait_for_end();
  CHECK(std::get<v0::DoneEvent>(events.back()).usage.completion_tokens == 100);
  CHECK(silent->wait_for(2));
  CHECK(silent->count() <= 18);  // `accepted` and the credit

  // Steering reaches it; a mute sink hears of the end as well.
  (*program.self)
      ->request(held, caf::infinite, v0::change_atom::value, v0::Changes{.temperature = -1.0F})
      .receive([] { FAIL("a temperature below 0 was taken"); },
               [](const caf::error& error) { CHECK(!v0::describe(error).empty()); });
  (*program.self)
      ->request(held, caf::infinite, v0::change_atom::value, v0::Changes{.max_new_tokens = 150})
      .receive([] {}, [](const caf::error& error) { FAIL(v0::describe(error)); });
  caf::anon_send(held, v0::cancel_atom::value, std::string("enough"));
  caf::anon_send_exit(mute, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
  (void)program.end_of(held);
}

TEST_CASE("a sink that dies ends its stream") {
  Program program;
  auto heard = std::make_shared<Heard>();
  const auto sink = program.system->spawn<Sink>(heard, 5U);
  const v0::StreamRef stream = program.generate(request_for("Once upon a time", 240), sink);
  CHECK(program.end_of(stream));
  CHECK(heard->count() == 5);
  // And lets go of everything it had.
  for (int i = 0; i < 3000; ++i) {
    std::int32_t open = 1;
    (*program.self)
        ->request(program.engine, caf::infinite, v0::stats_atom::value)
        .receive([&](const v0::Stats& stats) { open = stats.streams; },
                 [](const caf::error& error) { FAIL(v0::describe(error)); });
    if (open == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  FAIL("the stream goes on");
}

TEST_CASE("a model that can not be loaded is the reason of the engine's end") {
  v0::Config config;
  config.model = "/no/such/model.gguf";
  Program program(config);
  const caf::error reason = program.end_of(program.engine);
  CHECK(reason == caf::make_error(v0::ErrorCode::kNotFound));
  CHECK(v0::describe(reason).find("/no/such/model.gguf") != std::string::npos);
  CHECK(program.system->render(reason).find("not_found") != std::string::npos);
}

TEST_CASE("an engine that ends gives every sink its terminal event") {
  Program program;
  auto heard = std::make_shared<Heard>();
  const auto sink = program.system->spawn<Sink>(heard, 0U);
  const v0::StreamRef stream = program.generate(request_for("Once upon a time", 240), sink);
  REQUIRE(heard->wait_for(3));
  caf::anon_send_exit(program.engine, caf::exit_reason::user_shutdown);
  (void)program.end_of(program.engine);
  CHECK(is_terminal(heard->wait_for_end().back()));
  caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
}

TEST_CASE("a shutdown lets streams finish") {
  Program program;
  auto heard = std::make_shared<Heard>();
  const auto sink = program.system->spawn<Sink>(heard, 0U);
  (void)program.generate(request_for("Once upon a time", 60), sink);
  REQUIRE(heard->wait_for(1));  // accepted; what is not is refused by an engine that shuts down
  (*program.self)
      ->request(program.engine, caf::infinite, v0::shutdown_atom::value,
                std::chrono::milliseconds(60000))
      .receive([](v0::shutdown_atom) {},
               [](const caf::error& error) { FAIL(v0::describe(error)); });
  const auto events = heard->wait_for_end();
  CHECK(std::get<v0::DoneEvent>(events.back()).usage.completion_tokens == 60);
  caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
}

}  // namespace
