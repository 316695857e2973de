// Engines that are made and destroyed again and again while streams run, by every way in.
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sluice/asio.hpp"
#include "sluice/caf.hpp"
#include "tests/support/paths.hpp"

namespace {

using namespace sluice;
namespace asio = boost::asio;

constexpr int kEngines = 200;

v0::Config demo() {
  v0::Config config;
  config.model = test::source_dir() / "models/demo-q8_0.gguf";
  config.context = 256;
  config.sequences = 8;
  config.threads = 1;
  return config;
}

v0::Request endless(int number) {
  v0::Request request;
  request.input = "Story number " + std::to_string(number);
  request.seed = static_cast<std::uint64_t>(number);
  request.stop.max_new_tokens = 200;
  request.stop.ignore_end_tokens = true;
  return request;
}

/// What all streams of one engine said.
struct Tally {
  std::atomic<int> accepted{0};
  std::atomic<int> tokens{0};
  std::atomic<int> ends{0};
  void add(const v0::Event& event) {
    if (std::holds_alternative<v0::AcceptedEvent>(event)) ++accepted;
    if (std::holds_alternative<v0::TokenEvent>(event)) ++tokens;
    if (is_terminal(event)) ++ends;
  }
  void wait_for_tokens(int wanted) const {
    while (tokens < wanted) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
};

void with_callbacks(int streams, int until) {
  Tally tally;
  std::vector<v0::Stream> handles;
  {
    v0::Engine engine(demo());
    for (int i = 0; i < streams; ++i) {
      const auto delivery = i % 2 == 0 ? v0::Delivery::kOnReturn : v0::Delivery::kAcknowledged;
      handles.push_back(engine.generate(
          endless(i), [&tally](const v0::Event& event) { tally.add(event); }, delivery));
    }
    tally.wait_for_tokens(until);
  }
  CHECK(tally.ends == streams);
  for (const v0::Stream& stream : handles) stream.cancel();
}

asio::awaitable<void> listen(v0::AsyncStream stream, Tally& tally) {
  while (true) {
    const v0::Event event = co_await stream.next(asio::use_awaitable);
    tally.add(event);
    if (is_terminal(event)) co_return;
  }
}

void with_asio(int streams, int until) {
  Tally tally;
  asio::io_context context;
  auto engine = std::make_unique<v0::Engine>(demo());
  for (int i = 0; i < streams; ++i) {
    v0::AsyncStream stream(context.get_executor(), *engine, endless(i));
    asio::co_spawn(context, listen(std::move(stream), tally), asio::detached);
  }
  std::thread runner([&] { context.run(); });
  tally.wait_for_tokens(until);
  engine.reset();
  runner.join();
  CHECK(tally.ends == streams);
}

class Sink final : public v0::SinkRef::base {
 public:
  Sink(caf::actor_config& config, Tally* tally) : typed_event_based_actor(config), tally_(*tally) {}

 protected:
  behavior_type make_behavior() override {
    return {[this](v0::event_atom, v0::StreamId, const v0::Event& event) { tally_.add(event); }};
  }

 private:
  Tally& tally_;
};

void with_caf(int streams, int until) {
  Tally tally;
  {
    caf::actor_system_config settings;
    v0::tune(settings);
    caf::actor_system system(settings);
    v0::EngineRef engine = v0::spawn_engine(system, demo());
    const v0::SinkRef sink = system.spawn<Sink>(&tally);
    for (int i = 0; i < streams; ++i) {
      caf::anon_send(engine, v0::generate_atom::value, endless(i), sink);
    }
    tally.wait_for_tokens(until);
    caf::anon_send_exit(engine, caf::exit_reason::user_shutdown);
    caf::scoped_actor self(system);
    self->wait_for(engine);
    // A request that the exit has overtaken is no stream.
    while (tally.ends < tally.accepted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    caf::anon_send_exit(sink, caf::exit_reason::user_shutdown);
  }
  CHECK(tally.ends <= streams);
  CHECK((tally.ends > 0 || until == 0));
}

TEST_CASE("200 engines are made and destroyed while streams run") {
  std::mt19937 random(11);
  for (int i = 0; i < kEngines; ++i) {
    const int streams = 1 + static_cast<int>(random() % 6);
    const int until = static_cast<int>(random() % 12);
    switch (i % 3) {
      case 0:
        with_callbacks(streams, until);
        break;
      case 1:
        with_asio(streams, until);
        break;
      default:
        with_caf(streams, until);
        break;
    }
  }
}

}  // namespace
