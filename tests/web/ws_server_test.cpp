// The WebSocket side, over real sockets, with a Beast client and a stub for the engine.
#include "tests/web/ws_support.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <thread>
#include <vector>

using namespace sluice;
using namespace sluice::test;
using web::ServerOptions;

TEST_CASE("ws greets and streams in order with one end") {
  Running running;
  WsClient client(running.server.port());
  CHECK(client.selected_protocol() == "sluice.v1");
  const Frame hello = next(client);
  CHECK(hello.type == "hello");
  CHECK(hello.text.find("\"protocol\":\"sluice.v1\"") != std::string::npos);

  client.send(generate("a", "count 50"));
  const Story story = listen(client, "a");
  CHECK(story.accepted == 1);
  CHECK(story.text == counted(50));
  CHECK(story.tokens == 50);
  CHECK(story.n == 52);
  CHECK(story.end.type == "done");
  CHECK(story.end.rule == "end_token");
  CHECK(running.service.wait_until([&] { return running.service.live() == 0; }));
  CHECK(running.service.gone() == 0);

  // The id is free again, and nothing came after the end.
  client.send(generate("a", "count 1"));
  CHECK(next(client).type == "accepted");
}

TEST_CASE("ws passes the request on as sent") {
  Running running;
  WsClient client = running.connect();
  client.send(R"({"type":"generate","id":"a","max_tokens":9,"seed":5,"stop":["X"],
                  "messages":[{"role":"user","content":"hi"}]})");
  listen(client, "a");
  const auto requests = running.service.requests();
  REQUIRE(requests.size() == 1);
  CHECK(requests[0].seed == 5U);
  CHECK(requests[0].stop.max_new_tokens == 9);
  CHECK(requests[0].stop.stop_strings == std::vector<StopString>{{"X"}});
  CHECK(std::get<std::vector<ChatMessage>>(requests[0].input).at(0).content == "hi");
}

TEST_CASE("ws cancels one stream and leaves the other alone") {
  Running running;
  WsClient client = running.connect();
  client.send(generate("long", "endless"));
  client.send(generate("short", "count 200"));
  std::map<std::string, Story> stories;
  bool cancelled = false;
  while (!stories["long"].end.terminal() || !stories["short"].end.terminal()) {
    const Frame frame = next(client);
    stories[frame.id].add(frame);
    if (!cancelled && stories["long"].tokens > 20) {
      cancelled = true;
      client.send(cancel("long"));
    }
  }
  CHECK(stories.size() == 2);
  CHECK(stories["long"].end.rule == "cancelled");
  CHECK(stories["long"].end.detail == "cancelled by the client");
  CHECK(stories["long"].text == counted(stories["long"].tokens));
  CHECK(stories["short"].end.rule == "end_token");
  CHECK(stories["short"].text == counted(200));
}

TEST_CASE("ws pauses and goes on") {
  Running running;
  WsClient client = running.connect();
  client.send(generate("a", "endless"));
  client.send(R"({"type":"pause","id":"a"})");
  CHECK(running.service.wait_until([&] { return running.service.paused() == 1; }));
  client.send(R"({"type":"unpause","id":"a"})");
  CHECK(running.service.wait_until([&] { return running.service.paused() == 0; }));
  client.send(cancel("a"));
  CHECK(listen(client, "a").end.rule == "cancelled");
}

TEST_CASE("ws passes heartbeats and errors on") {
  Running running;
  WsClient client = running.connect();
  client.send(generate("a", "beat"));
  CHECK(next(client).type == "accepted");
  const Frame beat = next(client);
  CHECK(beat.type == "heartbeat");
  CHECK(beat.n == 1);
  listen(client, "a");

  client.send(generate("b", "fail 3"));
  const Story failed = listen(client, "b");
  CHECK(failed.end.type == "error");
  CHECK(failed.end.code == "internal_error");
  CHECK(failed.text == counted(3));

  client.send(generate("c", "refuse"));
  const Frame refused = next(client);
  CHECK(refused.code == "prompt_too_long");
  CHECK(refused.id == "c");
  CHECK(refused.n == 1);
}

TEST_CASE("ws answers bad frames with a sentence and goes on") {
  Running running;
  WsClient client = running.connect();
  const auto answer_to = [&](const std::string& frame) {
    client.send(frame);
    return next(client);
  };
  CHECK(answer_to("{not json").code == "invalid_json");
  CHECK(answer_to(R"({"type":"fly","id":"a"})").code == "unknown_type");
  const Frame invalid = answer_to(R"({"type":"generate","id":"a","prompt":"x","top_k":-1})");
  CHECK(invalid.code == "invalid_request");
  CHECK(invalid.id == "a");
  CHECK(invalid.n == 1);
  client.send_binary("\x01\x02");
  const Frame binary = next(client);
  CHECK(binary.code == "binary_frame");
  CHECK(binary.id.empty());

  client.send(cancel("nobody"));  // no answer: the stream may have ended meanwhile
  client.send(generate("a", "count 3"));
  CHECK(listen(client, "a").end.rule == "end_token");
}

TEST_CASE("ws refuses an id in use without ending its stream") {
  Running running;
  WsClient client = running.connect();
  client.send(generate("a", "endless"));
  client.send(generate("a", "count 1"));
  client.send(R"({"type":"generate","id":"a","prompt":"x","top_k":-1})");
  std::vector<std::string> codes;
  Story story;
  while (codes.size() < 2) {
    const Frame frame = next(client);
    if (frame.id.empty()) {
      codes.push_back(frame.code);
    } else {
      story.add(frame);
    }
  }
  CHECK(codes == std::vector<std::string>{"duplicate_id", "invalid_request"});
  CHECK_FALSE(story.end.terminal());
  client.send(cancel("a"));
  while (!story.end.terminal()) story.add(next(client));
  CHECK(story.end.rule == "cancelled");
  CHECK(running.service.requests().size() == 1);
}

TEST_CASE("ws limits the streams of a connection") {
  ServerOptions options = any_port();
  options.limits.max_streams_per_connection = 2;
  Running running(options);
  WsClient client = running.connect();
  for (const char* id : {"a", "b", "c"}) client.send(generate(id, "endless"));
  const Story refused = listen(client, "c");
  CHECK(refused.end.code == "too_many_streams");
  client.send(cancel("a"));
  listen(client, "a");
  client.send(generate("c", "count 2"));
  CHECK(listen(client, "c").end.rule == "end_token");
}

TEST_CASE("ws ends streams when the client vanishes or closes") {
  Running running;
  for (const bool politely : {false, true}) {
    WsClient client = running.connect();
    client.send(generate("a", "endless"));
    client.send(generate("b", "endless"));
    CHECK(next(client).type == "accepted");
    REQUIRE(running.service.wait_until([&] { return running.service.live() == 2; }));
    if (politely) {
      client.close();
    } else {
      client.vanish();
    }
    CHECK(running.service.wait_until([&] { return running.service.live() == 0; }));
  }
  CHECK(running.service.gone() == 4);
}

TEST_CASE("ws lets a slow reader wait without piling up") {
  // Tokens of 4 KiB fill the small kernel buffers at once; then only the window may be in flight.
  ServerOptions options = any_port();
  options.limits.send_buffer_bytes = 4096;
  Running running(options, 16, 4096);
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  WsClient slow = running.connect(upgrade);
  slow.send(generate("a", "count 3000"));
  REQUIRE(running.service.wait_until_stalled());

  // A neighbour is not held up, and the slow one gets everything in the end.
  WsClient quick = running.connect();
  quick.send(generate("q", "count 100"));
  CHECK(listen(quick, "q").tokens == 100);
  CHECK(running.service.emitted() - 100 < 200);
  const Story story = listen(slow, "a");
  CHECK(story.tokens == 3000);
  CHECK(story.end.rule == "end_token");
}

TEST_CASE("ws drops a client that takes nothing") {
  ServerOptions options = any_port();
  options.limits.send_buffer_bytes = 4096;
  options.limits.stall_timeout = std::chrono::milliseconds(200);
  Running running(options, 16, 65536);
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  WsClient client = running.connect(upgrade);
  client.send(generate("a", "endless"));
  CHECK(running.service.wait_until([&] { return running.service.gone() == 1; }));
  CHECK(running.wait_for_metric("sluice_clients_dropped_total 1"));

  // One that reads again after all gets what was on its way, and the reason.
  while (client.receive()) {
  }
  CHECK(client.close_code() == 1008);
  CHECK(client.close_reason() == "nothing was read for too long");
  CHECK(running.wait_for_metric("sluice_queued_bytes 0"));
  CHECK(running.wait_for_metric("sluice_websockets 0"));
}

TEST_CASE("ws cuts a dropped client off when it does not come round") {
  ServerOptions options = any_port();
  options.limits.send_buffer_bytes = 4096;
  options.limits.stall_timeout = std::chrono::milliseconds(100);
  options.limits.close_timeout = std::chrono::milliseconds(100);
  Running running(options, 16, 65536);
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  WsClient client = running.connect(upgrade);
  client.send(generate("a", "endless"));
  CHECK(running.wait_for_metric("sluice_clients_dropped_total 1"));
  CHECK(running.wait_for_metric("sluice_websockets 0"));
  CHECK(running.wait_for_metric("sluice_queued_bytes 0"));
}

TEST_CASE("ws drops a client that provokes answers without reading them") {
  ServerOptions options = any_port();
  options.limits.send_buffer_bytes = 4096;
  options.limits.max_queued_bytes = 64 << 10;
  options.limits.close_timeout = std::chrono::milliseconds(100);
  Running running(options);
  UpgradeOptions upgrade;
  upgrade.receive_buffer_bytes = 4096;
  WsClient client = running.connect(upgrade);
  client.send(generate("a", "endless"));
  CHECK_THROWS([&] {
    for (int i = 0; i < 1'000'000; ++i) client.send("nonsense");
  }());
  CHECK(running.service.wait_until([&] { return running.service.live() == 0; }));
}

TEST_CASE("ws closes with 1009 on a frame too large and 1007 on invalid UTF-8") {
  ServerOptions options = any_port();
  options.limits.max_frame_bytes = 1000;
  Running running(options);
  {
    WsClient client = running.connect();
    client.send(std::string(1001, ' '));
    CHECK_FALSE(client.receive());
    CHECK(client.close_code() == 1009);
  }
  {
    WsClient client = running.connect();
    client.send("\xC3\x28");
    CHECK_FALSE(client.receive());
    CHECK(client.close_code() == 1007);
  }
  WsClient client = running.connect();
  client.send(generate("a", "count 1"));
  listen(client, "a");
}

TEST_CASE("ws pings a silent client") {
  ServerOptions options = any_port();
  options.limits.idle_timeout = std::chrono::milliseconds(500);
  Running running(options);
  WsClient quiet = running.connect();
  std::thread reader([&] {
    while (quiet.receive()) {
    }
  });
  CHECK(running.service.wait_until([&] { return quiet.pings() > 0; }));
  running.server.stop(std::chrono::milliseconds(0));
  reader.join();
}

TEST_CASE("ws brings heartbeats through a long silence and takes nobody for dead") {
  ServerOptions options = any_port();
  options.limits.idle_timeout = std::chrono::milliseconds(200);
  options.limits.stall_timeout = std::chrono::milliseconds(100);
  Running running(options);
  WsClient client = running.connect();
  client.send(generate("a", "hush 40"));  // 40 heartbeats, 20 ms apart: 800 ms without a token
  CHECK(next(client).type == "accepted");
  std::size_t beats = 0;
  Frame frame = next(client);
  for (; frame.type == "heartbeat"; frame = next(client)) {
    ++beats;
    CHECK(frame.n == 1);
    CHECK(frame.phase == "prefill");
  }
  CHECK(beats > 10);
  CHECK(frame.type == "token");
  CHECK(client.pings() > 0);
  CHECK(listen(client, "a").end.rule == "end_token");
}

TEST_CASE("ws ends a dead client after the idle time") {
  ServerOptions options = any_port();
  options.limits.idle_timeout = std::chrono::milliseconds(100);
  Running running(options);
  const WsClient dead = running.connect();  // never reads again, so never answers a ping
  CHECK(running.wait_for_metric("sluice_websockets 0"));
}

TEST_CASE("ws refuses foreign origins and hosts and protocols at the upgrade") {
  Running running;
  // Upgrades with one thing out of the ordinary.
  const auto upgrade = [&](std::string UpgradeOptions::*what, const std::string& value) {
    UpgradeOptions options;
    options.*what = value;
    return WsClient(running.server.port(), options);
  };
  using Options = UpgradeOptions;
  CHECK_THROWS_WITH(
      upgrade(&Options::origin, "http://evil.example"),
      Catch::StartsWith("upgrade refused with 403") && Catch::Contains("http://evil.example"));
  CHECK_THROWS_WITH(upgrade(&Options::origin, "null"),
                    Catch::StartsWith("upgrade refused with 403"));
  CHECK_THROWS_WITH(upgrade(&Options::host, "evil.example"),
                    Catch::StartsWith("upgrade refused with 403"));
  CHECK_THROWS_WITH(upgrade(&Options::path, "/v1/other"),
                    Catch::StartsWith("upgrade refused with 404"));
  CHECK_THROWS_WITH(upgrade(&Options::protocol, "chat"),
                    Catch::StartsWith("upgrade refused with 400"));
  const std::string own = "http://localhost:" + std::to_string(running.server.port());
  CHECK_NOTHROW(upgrade(&Options::origin, own));
  CHECK(upgrade(&Options::protocol, "chat, sluice.v1").selected_protocol() == "sluice.v1");
  CHECK(upgrade(&Options::protocol, "").selected_protocol().empty());
}

TEST_CASE("ws stop lets streams finish within the grace time") {
  Running running;
  WsClient client = running.connect();
  client.send(generate("a", "count 2000"));
  CHECK(next(client).type == "accepted");
  std::thread stopper([&] { running.server.stop(std::chrono::seconds(20)); });
  Story story;
  while (!story.end.terminal()) story.add(next(client));
  CHECK(story.text == counted(2000));
  CHECK(story.end.rule == "end_token");
  CHECK_FALSE(client.receive());
  CHECK(client.close_code() == 1001);
  CHECK(client.close_reason() == "the server is shutting down");
  stopper.join();
}

TEST_CASE("ws stop without grace cancels and still gives each stream its end") {
  Running running;
  WsClient client = running.connect();
  client.send(generate("a", "endless"));
  client.send(generate("b", "endless"));
  std::map<std::string, Story> stories;
  while (stories.size() < 2) {
    const Frame frame = next(client);
    stories[frame.id].add(frame);
  }
  std::thread stopper([&] { running.server.stop(std::chrono::milliseconds(0)); });
  while (!stories["a"].end.terminal() || !stories["b"].end.terminal()) {
    const Frame frame = next(client);
    stories[frame.id].add(frame);
  }
  CHECK(stories["a"].end.rule == "cancelled");
  CHECK(stories["b"].end.rule == "cancelled");
  CHECK(stories["a"].end.detail == "the server is shutting down");
  CHECK_FALSE(client.receive());
  CHECK(client.close_code() == 1001);
  stopper.join();
}

TEST_CASE("ws stop does not wait for a client that answers nothing") {
  ServerOptions options = any_port();
  options.limits.close_timeout = std::chrono::milliseconds(200);
  Running running(options);
  const WsClient deaf = running.connect();
  running.server.stop(std::chrono::milliseconds(0));  // returns: that is the test
  CHECK(running.service.live() == 0);
}

TEST_CASE("ws serves many clients at once with several threads") {
  ServerOptions options = any_port();
  options.threads = 3;
  Running running(options);
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      WsClient client(running.server.port());
      const std::size_t tokens = 100 + static_cast<std::size_t>(i);
      client.send(generate("s", "count " + std::to_string(tokens)));
      std::string last;
      std::size_t seen = 0;
      while (auto text = client.receive()) {
        for (std::size_t at = text->find("\"logprob\""); at != std::string::npos;
             at = text->find("\"logprob\"", at + 1)) {
          ++seen;
        }
        last = *text;
        if (last.find("\"type\":\"done\"") != std::string::npos) break;
      }
      if (seen == tokens && last.find("\"end_token\"") != std::string::npos) ++right;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
}
