// The hub without sockets: who ends when.
#include "web/stream_hub.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/stub_service.hpp"

using namespace sluice;
using namespace sluice::test;
using namespace sluice::web;
using std::chrono::milliseconds;

namespace {

class CountingSink final : public EventSink {
 public:
  void on_news(ViewerId) override { ++news; }
  std::atomic<std::uint64_t> news{0};
};

GenerateRequest request(const std::string& script) {
  GenerateRequest request;
  request.input = script;
  return request;
}

constexpr milliseconds kLong{600'000};

}  // namespace

TEST_CASE("stream hub tells a viewer once and again only after it took everything") {
  StubService service;
  StreamHub hub(service);
  const auto sink = std::make_shared<CountingSink>();
  const ViewerId viewer = hub.start(request("endless"), milliseconds(0), sink);
  REQUIRE(service.wait_until_stalled());
  CHECK(sink->news == 1);
  std::uint64_t number = 0;
  while (const auto event = hub.take(viewer)) number = number_of(*event);
  hub.written(viewer, number, false);
  CHECK(service.wait_until([&] { return sink->news == 2; }));
  hub.detach(viewer);
  CHECK(service.live() == 0);
}

TEST_CASE("stream hub ends what is not kept and keeps what is") {
  StubService service;
  StreamHub hub(service);
  const auto sink = std::make_shared<CountingSink>();
  const ViewerId plain = hub.start(request("endless"), milliseconds(0), sink);
  const ViewerId kept = hub.start(request("endless"), kLong, sink);
  CHECK(hub.stream_key(plain).empty());
  const std::string key = hub.stream_key(kept);
  hub.detach(plain);
  hub.detach(kept);
  CHECK(service.gone() == 1);
  CHECK(hub.stats().unwatched == 1);
  CHECK(hub.wait_until_empty(milliseconds(0)));
  const auto back = hub.attach(key, 0, sink);
  CHECK(back.fault == StreamHub::AttachFault::kNone);
  CHECK(hub.stats().unwatched == 0);
  CHECK_FALSE(hub.wait_until_empty(milliseconds(0)));
}

TEST_CASE("stream hub lets a stream with a full log go on for a viewer that has everything") {
  StubService service;
  StreamHub hub(service, {8192, 256});
  const auto sink = std::make_shared<CountingSink>();
  const ViewerId first = hub.start(request("endless"), kLong, sink);
  const std::string key = hub.stream_key(first);
  hub.detach(first);
  REQUIRE(service.wait_until_stalled());
  const std::uint64_t drawn = service.emitted();
  const auto back = hub.attach(key, drawn + 1, sink);
  REQUIRE(back.fault == StreamHub::AttachFault::kNone);
  CHECK(service.wait_until([&] { return service.emitted() > drawn; }));
}

TEST_CASE("stream hub ends the stream that was left first when too many wait") {
  StubService service;
  StreamHub hub(service, {1 << 20, 2});
  const auto sink = std::make_shared<CountingSink>();
  std::vector<std::string> keys;
  std::vector<ViewerId> viewers;
  for (int i = 0; i < 4; ++i) {
    viewers.push_back(hub.start(request("endless"), kLong, sink));
    keys.push_back(hub.stream_key(viewers.back()));
  }
  for (const ViewerId viewer : viewers) hub.detach(viewer);
  CHECK(service.wait_until([&] { return service.gone() == 2; }));
  CHECK(hub.attach(keys[0], 0, sink).fault == StreamHub::AttachFault::kUnknownStream);
  CHECK(hub.attach(keys[1], 0, sink).fault == StreamHub::AttachFault::kUnknownStream);
  CHECK(hub.attach(keys[2], 0, sink).fault == StreamHub::AttachFault::kNone);
  CHECK(hub.attach(keys[3], 0, sink).fault == StreamHub::AttachFault::kNone);
}

TEST_CASE("stream hub lets everything go when it closes or dies") {
  StubService service;
  const auto sink = std::make_shared<CountingSink>();
  {
    StreamHub hub(service);
    const ViewerId kept = hub.start(request("endless"), kLong, sink);
    hub.start(request("endless"), milliseconds(0), sink);
    hub.detach(hub.start(request("endless"), kLong, sink));
    CHECK(service.live() == 3);
    hub.close();
    CHECK(service.live() == 2);
    CHECK(hub.start(request("endless"), kLong, sink) == 0);
    hub.detach(kept);  // nobody could come back for it
    CHECK(service.live() == 1);
  }
  CHECK(service.live() == 0);
}

TEST_CASE("stream hub survives many threads that come and go") {
  StubService service;
  StreamHub hub(service, {8192, 4});
  const auto sink = std::make_shared<CountingSink>();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const milliseconds keep((i + t) % 3);
        const ViewerId viewer = hub.start(request(i % 5 == 0 ? "refuse" : "count 40"), keep, sink);
        const std::string key = hub.stream_key(viewer);
        const auto second = hub.attach(key, static_cast<std::uint64_t>(i % 4), sink);
        hub.pause(second.viewer);
        for (const ViewerId each : {viewer, second.viewer}) {
          if (const auto event = hub.take(each)) {
            hub.written(each, number_of(*event), is_terminal(*event));
          }
        }
        hub.unpause(viewer);
        hub.cancel(viewer, "enough");
        hub.detach(viewer);
        hub.detach(second.viewer);
        hub.stats();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(hub.wait_until_empty(milliseconds(0)));
  CHECK(service.wait_until([&] { return hub.stats().streams == 0; }));
  CHECK(hub.stats().log_bytes == 0);
  CHECK(service.wait_until([&] { return service.live() == 0; }));
}
