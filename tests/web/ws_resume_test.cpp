// Streams that outlive their socket, over real sockets, with a stub for the engine.
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include "tests/web/ws_support.hpp"

using namespace sluice;
using namespace sluice::test;
using web::ServerOptions;

namespace {

/// Adds frames of stream `id` until it has so many events, or its end.
void follow(WsClient& client, const std::string& id, Story& story, std::uint64_t until) {
  while (story.n < until && !story.end.terminal()) {
    const Frame frame = next(client);
    if (frame.id == id) story.add(frame);
  }
}

std::string begin(WsClient& client, const std::string& prompt, int keep_ms = 60000) {
  client.send(generate_kept("a", prompt, keep_ms));
  const Frame accepted = next(client);
  REQUIRE(accepted.type == "accepted");
  REQUIRE(accepted.stream.size() == 22);
  return accepted.stream;
}

/// A story that goes on after event `after`.
Story since(std::uint64_t after) {
  Story story;
  story.begun = true;
  story.n = after;
  return story;
}

}  // namespace

TEST_CASE("resume goes on after a socket died without gap or repeat") {
  Running running;
  for (const bool politely : {false, true}) {
    Story story;
    std::string key;
    {
      WsClient client = running.connect();
      client.send(generate_kept("a", "count 5000"));
      const Frame accepted = next(client);
      key = accepted.stream;
      story.add(accepted);
      follow(client, "a", story, 100);
      if (politely) client.close();
    }
    REQUIRE_FALSE(story.end.terminal());
    WsClient client = running.connect();
    client.send(resume("b", key, story.n));
    follow(client, "b", story, UINT64_MAX);
    CHECK(story.text == counted(5000));
    CHECK(story.tokens == 5000);
    CHECK(story.n == 5002);
    CHECK(story.end.rule == "end_token");
  }
  CHECK(running.service.wait_until([&] { return running.service.live() == 0; }));
  CHECK(running.service.gone() == 0);
}

TEST_CASE("resume works at every event of a stream") {
  constexpr std::uint64_t kTokens = 30;
  Running running;
  WsClient first = running.connect();
  const std::string key = begin(first, "count " + std::to_string(kTokens));
  Story whole = since(1);
  follow(first, "a", whole, UINT64_MAX);
  CHECK(whole.text == counted(kTokens));

  WsClient second = running.connect();
  // The end comes again even for one who had it: every resume has an end of its own.
  for (std::uint64_t after = 0; after <= kTokens + 9; ++after) {
    const std::string id = "r" + std::to_string(after);
    second.send(resume(id, key, after));
    Story story = since(std::min(after, kTokens + 1));
    follow(second, id, story, UINT64_MAX);
    CHECK(story.n == kTokens + 2);
    CHECK(story.accepted == (after == 0 ? 1U : 0U));
    const std::string missing =
        counted(after <= 1 ? 0 : static_cast<std::size_t>(std::min(after - 1, kTokens)));
    CHECK(missing + story.text == counted(kTokens));
  }
}

TEST_CASE("resume lets several viewers follow one stream") {
  Running running;
  WsClient a = running.connect();
  const std::string key = begin(a, "endless");
  WsClient b = running.connect();
  b.send(resume("x", key, 0));
  b.send(resume("y", key, 1));  // twice on one connection
  Story of_a = since(1);
  Story of_x;
  Story of_y = since(1);
  follow(a, "a", of_a, 200);
  const auto follow_b = [&](std::uint64_t until) {
    while ((of_x.n < until && !of_x.end.terminal()) || (of_y.n < until && !of_y.end.terminal())) {
      const Frame frame = next(b);
      (frame.id == "x" ? of_x : of_y).add(frame);
    }
  };
  follow_b(100);
  b.send(cancel("y"));  // by any viewer, for all
  follow_b(UINT64_MAX);
  follow(a, "a", of_a, UINT64_MAX);
  CHECK(of_a.end.rule == "cancelled");
  CHECK(of_a.text == counted(of_a.tokens));
  CHECK(of_x.text == of_a.text);
  CHECK(of_y.text == of_a.text);
  CHECK(of_x.accepted == 1);
  CHECK(of_y.accepted == 0);
}

TEST_CASE("resume of an unknown key is refused and costs nothing") {
  Running running;
  WsClient owner = running.connect();
  std::string key = begin(owner, "endless");
  key[5] = key[5] == 'A' ? 'B' : 'A';
  WsClient guesser = running.connect();
  for (int i = 0; i < 1000; ++i) {
    guesser.send(resume("g", key, 0));
    const Frame refused = next(guesser);
    REQUIRE(refused.code == "unknown_stream");
    REQUIRE(refused.id == "g");
    REQUIRE(refused.n == 1);
  }
  CHECK(running.wait_for_metric("sluice_stream_viewers 1"));
  owner.send(cancel("a"));
  Story story = since(1);
  follow(owner, "a", story, UINT64_MAX);
  CHECK(story.end.rule == "cancelled");
}

TEST_CASE("resume keys differ and only kept streams have one") {
  Running running;
  WsClient client = running.connect();
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) {
    client.send(generate_kept("k" + std::to_string(i), "count 1"));
    Story story;
    while (!story.end.terminal()) {
      const Frame frame = next(client);
      if (frame.type == "accepted") keys.insert(frame.stream);
      story.add(frame);
    }
  }
  CHECK(keys.size() == 100);
  client.send(generate("plain", "count 1"));
  CHECK(next(client).stream.empty());
}

TEST_CASE("resume refuses an id in use") {
  Running running;
  WsClient client = running.connect();
  const std::string key = begin(client, "endless");
  client.send(resume("a", key, 0));
  Frame frame = next(client);
  while (frame.type != "error") frame = next(client);
  CHECK(frame.code == "duplicate_id");
  CHECK(frame.id.empty());
}

TEST_CASE("resume finds the rest of a stream that ended while nobody watched") {
  Running running;
  std::string key;
  {
    WsClient client = running.connect();
    key = begin(client, "count 500");
  }
  REQUIRE(running.service.wait_until([&] { return running.service.live() == 0; }));
  CHECK(running.wait_for_metric("sluice_streams_unwatched 1"));
  WsClient client = running.connect();
  client.send(resume("a", key, 1));
  Story story = since(1);
  follow(client, "a", story, UINT64_MAX);
  CHECK(story.text == counted(500));
  CHECK(running.service.gone() == 0);
}

TEST_CASE("resume after the keep time finds nothing and the engine is let go") {
  Running running;
  std::string key;
  {
    WsClient client = running.connect();
    key = begin(client, "endless", 50);
  }
  CHECK(running.service.wait_until([&] { return running.service.gone() == 1; }));
  CHECK(running.service.live() == 0);
  CHECK(running.wait_for_metric("sluice_streams_unwatched 0"));
  CHECK(running.wait_for_metric("sluice_stream_log_bytes 0"));
  WsClient client = running.connect();
  client.send(resume("a", key, 1));
  CHECK(next(client).code == "unknown_stream");
}

TEST_CASE("resume finds the log of an ended stream gone after the keep time") {
  Running running;
  WsClient client = running.connect();
  const std::string key = begin(client, "count 5", 30);
  Story story = since(1);
  follow(client, "a", story, UINT64_MAX);
  CHECK(running.wait_for_metric("sluice_stream_log_bytes 0"));
  client.send(resume("a", key, 0));
  CHECK(next(client).code == "unknown_stream");
}

TEST_CASE("resume too far back is refused and says how far it goes") {
  ServerOptions options = any_port();
  options.limits.stream_log_bytes = 4096;
  Running running(options);
  WsClient client = running.connect();
  const std::string key = begin(client, "endless");
  Story story = since(1);
  follow(client, "a", story, 2000);
  WsClient late = running.connect();
  late.send(resume("z", key, 3));
  const Frame refused = next(late);
  CHECK(refused.code == "gone_too_far");
  CHECK(refused.message.find("no longer kept; resume after") != std::string::npos);
}

TEST_CASE("resume pauses a stream without viewers when its log is full") {
  ServerOptions options = any_port();
  options.limits.stream_log_bytes = 64 << 10;
  // So that little is on its way to a client that has stopped reading, and counts as seen.
  options.limits.send_buffer_bytes = 4096;
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  Running running(options);
  std::string key;
  Story story;
  {
    WsClient client = running.connect(upgrade);
    key = begin(client, "endless");
    story = since(1);
    follow(client, "a", story, 50);
  }
  REQUIRE(running.service.wait_until_stalled());
  CHECK(running.service.live() == 1);
  CHECK(running.service.emitted() < 5000);

  WsClient client = running.connect();
  client.send(resume("b", key, story.n));
  follow(client, "b", story, running.service.emitted() + 1000);
  client.send(cancel("b"));
  follow(client, "b", story, UINT64_MAX);
  CHECK(story.end.rule == "cancelled");
  CHECK(story.text == counted(story.tokens));
}

TEST_CASE("resume lets the slowest viewer set the pace until it leaves") {
  ServerOptions options = any_port();
  options.limits.send_buffer_bytes = 4096;
  Running running(options, 16, 4096);
  WsClient quick = running.connect();
  const std::string key = begin(quick, "count 1000");
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  WsClient slow = running.connect(upgrade);
  slow.send(resume("s", key, 1));
  REQUIRE(running.wait_for_metric("sluice_stream_viewers 2"));
  REQUIRE(running.service.wait_until_stalled());
  CHECK(running.service.emitted() < 1000);
  slow.vanish();
  Story story = since(1);
  follow(quick, "a", story, UINT64_MAX);
  CHECK(story.tokens == 1000);
  CHECK(story.end.rule == "end_token");
}

TEST_CASE("resume is open to a client that was dropped for not reading") {
  ServerOptions options = any_port();
  options.limits.send_buffer_bytes = 4096;
  options.limits.stall_timeout = std::chrono::milliseconds(200);
  options.limits.close_timeout = std::chrono::milliseconds(100);
  options.limits.stream_log_bytes = 8 << 20;
  Running running(options, 16, 4096);
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  WsClient stuck = running.connect(upgrade);
  const std::string key = begin(stuck, "count 400");
  REQUIRE(running.wait_for_metric("sluice_clients_dropped_total 1"));
  WsClient client = running.connect();
  client.send(resume("a", key, 1));
  Story story = since(1);
  follow(client, "a", story, UINT64_MAX);
  CHECK(story.tokens == 400);
  CHECK(story.end.rule == "end_token");
}

TEST_CASE("change reaches the stream from any viewer") {
  Running running;
  WsClient client = running.connect();
  const std::string key = begin(client, "endless");
  WsClient other = running.connect();
  other.send(resume("o", key, 0));
  CHECK(next(other).type == "accepted");
  other.send(R"({"type":"change","id":"o","max_tokens":5,"stop":["X"],"temperature":0})");
  Story story = since(1);
  follow(client, "a", story, UINT64_MAX);
  CHECK(story.end.rule == "end_token");
  const auto changes = running.service.changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].max_new_tokens == 5);
  CHECK(changes[0].stop_strings == std::vector<StopString>{{"X"}});
  CHECK(changes[0].temperature == 0.0F);

  client.send(R"({"type":"change","id":"nobody","max_tokens":5})");  // ignored
  client.send(R"({"type":"change","id":"nobody"})");
  CHECK(next(client).code == "invalid_request");
}

TEST_CASE("stop of the server ends kept streams without viewers at once") {
  Running running;
  {
    WsClient client = running.connect();
    begin(client, "endless");
  }
  REQUIRE(running.wait_for_metric("sluice_streams_unwatched 1"));
  running.server.stop(std::chrono::seconds(20));
  CHECK(running.service.gone() == 1);
}
