// Keys at work: what a server with keys answers whom, over real sockets.
#include <simdjson.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "engine/base/error.hpp"
#include "tests/web/ws_support.hpp"
#include "web/access/key_file.hpp"

using namespace sluice;
using namespace sluice::test;
using web::ServerOptions;

namespace {

namespace fs = std::filesystem;

/// A file of keys that vanishes with its end.
struct KeyFile {
  KeyFile() { write({}); }
  ~KeyFile() { fs::remove(path); }
  KeyFile(const KeyFile&) = delete;
  KeyFile& operator=(const KeyFile&) = delete;

  /// alice has `limits`; bob may observe; with `others` behind them.
  void write(const std::string& limits, const std::string& others = {}) const {
    std::ofstream(path) << web::key_line("alice", alice) << " " << limits << "\n"
                        << web::key_line("bob", bob) << " observe\n"
                        << others;
  }

  const fs::path path =
      fs::temp_directory_path() / ("sluice-keys-" + std::to_string(getpid()) + ".txt");
  const std::string alice = web::new_key();
  const std::string bob = web::new_key();
};

ServerOptions with_keys(const KeyFile& file) {
  ServerOptions options = any_port();
  options.key_file = file.path;
  options.limits.stats_interval = std::chrono::milliseconds(5);
  return options;
}

HttpAnswer get(const Running& running, const std::string& target, const std::string& key = {},
               const std::string& extra = {}) {
  const std::string header = key.empty() ? "" : "Authorization: Bearer " + key + "\r\n";
  return http_request(running.server.port(), "GET", target, header + extra);
}

HttpAnswer ask(const Running& running, const std::string& key, const std::string& prompt) {
  return http_request(running.server.port(), "POST", "/v1/completions",
                      "Authorization: Bearer " + key + "\r\n", R"({"prompt":")" + prompt + "\"}");
}

std::string error_field(const HttpAnswer& answer, const char* field) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(answer.body);
  std::string_view value;
  INFO(answer.body);
  REQUIRE(parser.parse(padded)["error"][field].get(value) == simdjson::SUCCESS);
  return std::string(value);
}

UpgradeOptions with_key(const std::string& key) {
  UpgradeOptions options;
  options.key = key;
  return options;
}

Frame next_stats(WsClient& client) {
  while (true) {
    Frame frame = next(client);
    if (frame.type == "stats") return frame;
  }
}

}  // namespace

TEST_CASE("security: endpoints need a key and the page and probes do not") {
  const KeyFile file;
  const Running running(with_keys(file));
  for (const char* open : {"/", "/js/main.js", "/health", "/ready"}) {
    INFO(open);
    CHECK(get(running, open).status == 200);
  }
  for (const char* closed : {"/v1/models", "/v1/plan", "/v1/%6dodels", "/metrics", "/tokenize",
                             "/v1/chat/completions", "/v1/completions", "/v1/stream"}) {
    INFO(closed);
    const HttpAnswer answer = get(running, closed);
    CHECK(answer.status == 401);
    CHECK(answer.headers.at("www-authenticate") == "Bearer realm=\"sluice\"");
    CHECK(error_field(answer, "type") == "invalid_request_error");
    CHECK(error_field(answer, "code") == "invalid_api_key");
    CHECK(error_field(answer, "message").starts_with("This server needs a key"));
  }
  CHECK(http_request(running.server.port(), "POST", "/v1/completions", {}, "{}").status == 401);
  CHECK(get(running, "/v1/models", file.alice).status == 200);
  CHECK(get(running, "/v1/plan", file.bob).status == 200);
}

TEST_CASE("security: only the whole key in its place is a key") {
  const KeyFile file;
  const Running running(with_keys(file));
  const std::string& key = file.alice;
  for (const std::string& wrong :
       {key.substr(0, key.size() - 1), key + "x", web::new_key(), std::string("undefined"),
        std::string(5000, 'a'), web::to_hex(web::digest_of(key))}) {
    const HttpAnswer answer = get(running, "/v1/models", wrong);
    CHECK(answer.status == 401);
    CHECK(error_field(answer, "message").starts_with("This key is not known here"));
    CHECK(answer.body.find(wrong) == std::string::npos);
  }
  const auto status = [&](const std::string& headers) {
    return get(running, "/v1/models", {}, headers).status;
  };
  CHECK(status("Authorization: " + key + "\r\n") == 401);
  CHECK(status("Authorization: Basic " + key + "\r\n") == 401);
  CHECK(status("Authorization: Bearer\r\n") == 401);
  CHECK(status("X-Api-Key: " + key + "\r\n") == 401);
  CHECK(status("Sec-WebSocket-Protocol: sluice.key." + key + "\r\n") == 401);
  CHECK(get(running, "/v1/models?key=" + key).status == 401);
  CHECK(status("authorization: bearer   " + key + "\r\n") == 200);
  const std::string twice = "Authorization: Bearer " + key + "\r\n";
  CHECK(status(twice + twice) == 400);
}

TEST_CASE("security: a request without a key is answered before its body is read") {
  const KeyFile file;
  const Running running(with_keys(file));
  const auto answers = http_exchange(running.server.port(),
                                     "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                                     "Content-Length: 1000000\r\n\r\n{");
  CHECK(answers.front().status == 401);
  CHECK(answers.front().headers.at("connection") == "close");
}

TEST_CASE("security: metrics are for observers") {
  const KeyFile file;
  const Running running(with_keys(file));
  const HttpAnswer refused = get(running, "/metrics", file.alice);
  CHECK(refused.status == 403);
  CHECK(error_field(refused, "code") == "insufficient_permissions");
  const HttpAnswer metrics = get(running, "/metrics", file.bob);
  CHECK(metrics.status == 200);
  CHECK(metrics.body.find(file.alice) == std::string::npos);
  CHECK(metrics.body.find(file.bob) == std::string::npos);
}

TEST_CASE("security: websockets take a key from the header or the list of protocols") {
  const KeyFile file;
  const Running running(with_keys(file));
  CHECK_THROWS_WITH(WsClient(running.server.port()), Catch::StartsWith("upgrade refused with 401"));
  CHECK_THROWS_WITH(WsClient(running.server.port(), with_key(web::new_key())),
                    Catch::StartsWith("upgrade refused with 401"));
  {
    WsClient client = running.connect(with_key(file.alice));
    client.send(generate("a", "count 3"));
    CHECK(listen(client, "a").text == counted(3));
  }
  UpgradeOptions options;
  options.protocol = "sluice.v1, sluice.key." + file.alice;
  WsClient client = running.connect(options);
  CHECK(client.selected_protocol() == "sluice.v1");  // and not the key
  options.protocol = "sluice.key." + file.alice;
  CHECK_THROWS_WITH(WsClient(running.server.port(), options),
                    Catch::StartsWith("upgrade refused with 400"));
}

TEST_CASE("security: a page without a key learns it by the close code") {
  const KeyFile file;
  const Running running(with_keys(file));
  UpgradeOptions options;
  options.origin = "http://localhost:" + std::to_string(running.server.port());
  options.protocol = "sluice.v1, sluice.key." + web::new_key();
  WsClient client(running.server.port(), options);
  CHECK(client.selected_protocol() == "sluice.v1");
  client.send(generate("a", "count 3"));
  CHECK_FALSE(client.receive());
  CHECK(client.close_code() == 4401);
  CHECK(client.close_reason() == "this server needs a key that it knows");
  CHECK(running.service.requests().empty());
  // A foreign page does not even learn that.
  options.origin = "http://evil.example";
  CHECK_THROWS_WITH(WsClient(running.server.port(), options),
                    Catch::StartsWith("upgrade refused with 403"));
}

TEST_CASE("security: requests over the rate of a key wait over http and websocket") {
  const KeyFile file;
  file.write("requests=3/day");
  const Running running(with_keys(file));
  CHECK(ask(running, file.alice, "count 1").status == 200);
  WsClient client = running.connect(with_key(file.alice));
  client.send(generate("a", "count 1"));
  CHECK(listen(client, "a").end.type == "done");
  CHECK(ask(running, file.alice, "count 1").status == 200);

  const HttpAnswer refused = ask(running, file.alice, "count 1");
  CHECK(refused.status == 429);
  CHECK(std::stoi(refused.headers.at("retry-after")) > 28000);  // a third of a day
  CHECK(error_field(refused, "type") == "rate_limit_error");
  CHECK(error_field(refused, "code") == "rate_limit_exceeded");
  client.send(generate("b", "count 1"));
  const Frame frame = next(client);
  CHECK(frame.type == "error");
  CHECK(frame.id == "b");
  CHECK(frame.code == "rate_limited");
  CHECK(frame.text.find("\"retry_after_ms\":28") != std::string::npos);
  CHECK(running.service.requests().size() == 3);
  // Others, and what generates nothing, are not concerned.
  CHECK(get(running, "/v1/models", file.alice).status == 200);
  CHECK(ask(running, file.bob, "count 1").status == 200);
}

TEST_CASE("security: tokens over the rate of a key hold back its next stream") {
  const KeyFile file;
  file.write("tokens=50/day");
  const Running running(with_keys(file));
  WsClient client = running.connect(with_key(file.alice));
  client.send(generate("a", "count 200"));  // goes through: it began with a full bucket
  CHECK(listen(client, "a").end.type == "done");
  client.send(generate("b", "count 1"));
  const Frame frame = next(client);
  CHECK(frame.code == "rate_limited");
  CHECK(frame.message.find("tokens") != std::string::npos);
  CHECK(ask(running, file.alice, "count 1").status == 429);
  CHECK(ask(running, file.bob, "count 1").status == 200);
}

TEST_CASE("security: streams over the number of a key wait for others to end") {
  const KeyFile file;
  file.write("streams=2");
  const Running running(with_keys(file));
  WsClient client = running.connect(with_key(file.alice));
  const auto begin = [&](const std::string& id) {
    client.send(generate(id, "endless"));
    while (true) {
      const Frame frame = next(client);
      if (frame.id == id) return frame;
    }
  };
  CHECK(begin("a").type == "accepted");
  CHECK(begin("b").type == "accepted");
  const Frame refused = begin("c");
  CHECK(refused.code == "rate_limited");
  CHECK(refused.text.find("\"retry_after_ms\":1000") != std::string::npos);
  CHECK(ask(running, file.alice, "count 1").status == 429);
  CHECK(ask(running, file.bob, "count 1").status == 200);
  client.send(cancel("a"));
  CHECK(listen(client, "a").end.type == "done");
  CHECK(begin("c").type == "accepted");
  // Those that go with their connection count no longer, nor does what is kept of an answer.
  client.vanish();
  WsClient again = running.connect(with_key(file.alice));
  for (const char* id : {"d", "e", "f"}) {
    Frame first;
    do {
      again.send(generate_kept(id, "count 1"));
      first = next(again);
    } while (first.code == "rate_limited");  // until the server has seen the other go
    CHECK(listen(again, id).end.type == "done");
  }
  // One request may not begin more than all together.
  const HttpAnswer many =
      http_request(running.server.port(), "POST", "/v1/completions",
                   "Authorization: Bearer " + file.alice + "\r\n", R"({"prompt":"count 1","n":3})");
  CHECK(many.status == 429);
}

TEST_CASE("security: a kept stream belongs to its key") {
  const KeyFile file;
  const Running running(with_keys(file));
  WsClient alice = running.connect(with_key(file.alice));
  alice.send(generate_kept("a", "count 5"));
  const std::string stream = next(alice).stream;
  REQUIRE_FALSE(stream.empty());
  WsClient bob = running.connect(with_key(file.bob));
  bob.send(resume("r", stream, 0));
  CHECK(next(bob).code == "unknown_stream");
  WsClient again = running.connect(with_key(file.alice));
  again.send(resume("r", stream, 0));
  CHECK(listen(again, "r").text == counted(5));
}

TEST_CASE("security: who leaves too many streams behind pays with their own") {
  const KeyFile file;
  ServerOptions options = with_keys(file);
  options.limits.max_unwatched_streams = 2;
  Running running(options);
  const auto leave = [&](const std::string& key) {
    const std::size_t before = running.service.live();
    WsClient client = running.connect(with_key(key));
    client.send(generate_kept("a", "endless"));
    const std::string stream = next(client).stream;
    CHECK(running.service.live() == before + 1);
    return stream;
  };
  const std::string of_bob = leave(file.bob);  // the oldest
  const std::string first = leave(file.alice);
  const std::string second = leave(file.alice);
  CHECK(running.service.wait_until([&] { return running.service.live() == 2; }));
  const auto answer = [&](const std::string& key, const std::string& stream) {
    WsClient client = running.connect(with_key(key));
    client.send(resume("r", stream, 0));
    return next(client).type;
  };
  CHECK(answer(file.alice, first) == "error");
  CHECK(answer(file.alice, second) == "accepted");
  CHECK(answer(file.bob, of_bob) == "accepted");
}

TEST_CASE("security: a key that is taken out of the file stops to open") {
  const KeyFile file;
  Running running(with_keys(file));
  WsClient alice = running.connect(with_key(file.alice));
  WsClient bob = running.connect(with_key(file.bob));
  const std::string carol = web::new_key();
  CHECK(get(running, "/v1/models", carol).status == 401);

  std::ofstream(file.path) << "bob nonsense\n";
  CHECK_THROWS_AS(running.server.reload(), Error);  // and nothing is changed
  CHECK(get(running, "/v1/models", file.alice).status == 200);

  std::ofstream(file.path) << web::key_line("bob", file.bob) << "\n"
                           << web::key_line("carol", carol) << "\n";
  running.server.reload();
  CHECK_FALSE(alice.receive());
  CHECK(alice.close_code() == 4401);
  CHECK(alice.close_reason() == "the key is no longer valid");
  CHECK(get(running, "/v1/models", file.alice).status == 401);
  CHECK(get(running, "/v1/models", carol).status == 200);
  CHECK(get(running, "/metrics", file.bob).status == 403);  // no longer an observer
  bob.send(generate("b", "count 3"));
  CHECK(listen(bob, "b").end.type == "done");
}

TEST_CASE("security: stats show others to observers alone") {
  const KeyFile file;
  Running running(with_keys(file));
  WsClient alice = running.connect(with_key(file.alice));
  WsClient bob = running.connect(with_key(file.bob));
  bob.send(generate("b", "endless"));
  CHECK(next(bob).type == "accepted");
  alice.send(generate("a", "endless"));
  CHECK(next(alice).type == "accepted");
  // The stub's sequences: bob's is 1 and has blocks, alice's is 2; both are in every step.
  const auto has = [](const Frame& frame, const std::string& part) {
    return frame.text.find(part) != std::string::npos;
  };
  bob.send(R"({"type":"stats"})");
  const Frame seen = next_stats(bob);
  INFO(seen.text);
  CHECK(has(seen, R"("map":[[2,1,1],[1,2,1],)"));
  CHECK(has(seen, R"({"sequence":1,"phase":"decode")"));
  CHECK(has(seen, R"({"sequence":2,"phase":"queued")"));
  CHECK(has(seen, R"("slices":[[1,1,1],[2,8,0]])"));

  alice.send(R"({"type":"stats"})");
  const Frame hidden = next_stats(alice);
  INFO(hidden.text);
  CHECK(has(hidden, R"("map":[[2,1,0],[1,2,0],)"));
  CHECK_FALSE(has(hidden, R"("sequence":1)"));
  CHECK(has(hidden, R"({"sequence":2,"phase":"queued")"));
  CHECK(has(hidden, R"("slices":[[2,8,0],[0,1,1]])"));
  CHECK(has(hidden, R"("streams":{"a":{"sequence":2}})"));
}

TEST_CASE("security: a server beyond this machine wants keys or to be told otherwise") {
  const KeyFile file;
  StubService service;
  ServerOptions options = any_port();
  options.address = "0.0.0.0";
  CHECK_THROWS_WITH(web::Server(service, options), Catch::Contains("--api-keys") &&
                                                       Catch::Contains("--insecure") &&
                                                       Catch::Contains("sluice key new"));
  CHECK_THROWS_WITH(web::Server::check(options), Catch::Contains("--api-keys"));
  options.key_file = file.path;
  CHECK_NOTHROW(web::Server::check(options));
  CHECK_NOTHROW(web::Server(service, options));
  options.key_file = "/no/such/file";
  CHECK_THROWS_WITH(web::Server(service, options), Catch::Contains("/no/such/file"));
}
