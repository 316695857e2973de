// What the machine is doing, as those who watch are told.
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "tests/web/ws_support.hpp"
#include "web/event_json.hpp"
#include "web/stats_json.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

web::ServerOptions quick() {
  web::ServerOptions options = any_port();
  options.limits.stats_interval = std::chrono::milliseconds(5);
  return options;
}

Frame next_stats(WsClient& client) {
  while (true) {
    Frame frame = next(client);
    if (frame.type == "stats") return frame;
  }
}

bool has(const Frame& frame, const std::string& part) {
  INFO(part << " in " << frame.text);
  return frame.text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("stats: nothing is asked of the engine unless somebody watches") {
  Running running(quick());
  WsClient client = running.connect();
  client.send(generate("a", "count 100"));
  listen(client, "a");
  CHECK(running.service.inspections() == 0);

  client.send(R"({"type":"stats"})");
  next_stats(client);
  client.send(R"({"type":"stats","on":false})");
  client.send(generate("b", "count 1"));  // its end comes after the last stats frame
  listen(client, "b");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto asked = running.service.inspections();
  CHECK(asked >= 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(running.service.inspections() == asked);
}

TEST_CASE("stats: a client that has gone is asked for no longer") {
  Running running(quick());
  {
    WsClient client = running.connect();
    client.send(R"({"type":"stats"})");
    next_stats(client);
    client.vanish();
  }
  CHECK(running.wait_for_metric("sluice_websockets 0"));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto asked = running.service.inspections();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(running.service.inspections() == asked);
}

TEST_CASE("stats: a frame has the pool the batch and the actors") {
  Running running(quick());
  WsClient client = running.connect();
  client.send(R"({"type":"stats"})");
  const Frame first = next_stats(client);
  CHECK(has(first, R"("block_size":16)"));
  CHECK(has(first, R"("map":[[2,1,1],[1,2,1],[1,-1,0],[1,0,0]],"map_left_out":0)"));
  CHECK(
      has(first, R"({"sequence":1,"phase":"decode","queue_position":0,"computed":20,"total":21)"));
  CHECK(has(first, R"({"sequence":2,"phase":"queued","queue_position":1)"));
  CHECK(has(first, R"("steps":[{"number":1,"ms":1.5,"slices":[[1,1,1],[2,8,0]]}])"));
  CHECK(has(first,
            R"({"name":"supervisor","mailbox":2},{"name":"executor","mailbox":0,"busy":true})"));
  CHECK(has(first, R"("streams":{})"));
  // Each step is told once; a look in between may have been skipped.
  const Frame second = next_stats(client);
  CHECK_FALSE(has(second, R"("steps":[{"number":1,)"));
}

TEST_CASE("stats: held text is for those who ask and only of their own streams") {
  Running running(quick());
  WsClient watcher = running.connect();
  WsClient other = running.connect();
  other.send(generate("theirs", "endless"));
  watcher.send(generate("mine", "endless"));
  watcher.send(R"({"type":"stats"})");
  while (!has(next_stats(watcher), R"("streams":{"mine":{"sequence":)")) {
  }
  watcher.send(R"({"type":"stats","held":true})");
  Frame frame = next_stats(watcher);
  while (!has(frame, R"("held":"held")")) frame = next_stats(watcher);
  CHECK_FALSE(has(frame, "theirs"));
}

TEST_CASE("stats: the frame is checked like every other") {
  Running running(quick());
  WsClient client = running.connect();
  for (const char* wrong : {R"({"type":"stats","on":1})", R"({"type":"stats","id":"a"})",
                            R"({"type":"stats","x":2})"}) {
    client.send(wrong);
    const Frame answer = next(client);
    CHECK(answer.type == "error");
    CHECK(answer.code == "invalid_request");
    CHECK(answer.id.empty());
  }
  CHECK(running.service.inspections() == 0);
}

TEST_CASE("stats: one who does not read gets the latest and not all") {
  Running running(quick());
  UpgradeOptions small;
  small.receive_buffer_bytes = 4096;
  WsClient client = running.connect(small);
  client.send(R"({"type":"stats"})");
  CHECK(running.service.wait_until([&] { return running.service.inspections() > 300; }));
  CHECK(has(next_stats(client), R"("waiting":)"));
}

TEST_CASE("stats: alternatives have their texts") {
  const TokenEvent event{2, "x", {{1, "x", -1.5F, {{1, -1.5F}, {2, -3.0F}}}}};
  const auto text = [](TokenId id) { return std::string(static_cast<std::size_t>(id), 'y'); };
  CHECK(web::event_json("a", event, {}, text) ==
        R"({"type":"token","id":"a","n":2,"text":"x","tokens":[{"id":1,"text":"x","logprob":-1.5,)"
        R"("top":[{"id":1,"logprob":-1.5,"text":"y"},{"id":2,"logprob":-3,"text":"yy"}]}]})");
}

TEST_CASE("stats: the map of a huge pool is bounded and says what it leaves out") {
  EngineView view;
  for (std::uint64_t i = 0; i < 10000; ++i) view.blocks.push_back({1, false, i + 1});
  const std::string fields = web::stats_fields({}, view, 0);
  CHECK(fields.size() < 200000);
  CHECK(fields.find(R"("map_left_out":5904)") != std::string::npos);
}
