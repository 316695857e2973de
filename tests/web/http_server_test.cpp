// The server's HTTP side, over real sockets, with a stub for the engine.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "engine/base/error.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/stub_service.hpp"
#include "tests/web/clients.hpp"
#include "web/server.hpp"

using namespace sluice;
using namespace sluice::test;
using web::Server;
using web::ServerOptions;

namespace {

ServerOptions any_port() {
  ServerOptions options;
  options.port = 0;
  return options;
}

struct Running {
  explicit Running(const ServerOptions& options = any_port()) : server(service, options) {
    server.start();
  }
  HttpAnswer get(const std::string& target, const std::string& extra = {}) const {
    return http_request(server.port(), "GET", target, extra);
  }
  StubService service;
  Server server;
};

/// The sentence of an error answer; fails the test when there is none.
std::string error_of(const HttpAnswer& answer) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(answer.body);
  std::string_view message;
  INFO(answer.body);
  REQUIRE(parser.parse(padded)["error"]["message"].get(message) == simdjson::SUCCESS);
  REQUIRE(answer.headers.at("content-type") == "application/json");
  return std::string(message);
}

}  // namespace

TEST_CASE("http health and readiness") {
  Running running;
  CHECK(running.get("/health").body == R"({"status":"ok"})");
  CHECK(running.get("/ready").status == 200);
  running.service.set_ready(false);
  CHECK(running.get("/ready").status == 503);
  CHECK(running.get("/health").status == 200);
  // Probes come by whatever name the orchestrator uses.
  CHECK(running.get("/health", "Host: pod-7.cluster\r\n").status == 200);
}

TEST_CASE("http metrics are well formed and hold the engine numbers") {
  Running running;
  const HttpAnswer answer = running.get("/metrics");
  CHECK(answer.headers.at("content-type") == "text/plain; version=0.0.4; charset=utf-8");
  std::string described;
  std::size_t begin = 0;
  while (begin < answer.body.size()) {
    const std::size_t end = answer.body.find('\n', begin);
    REQUIRE(end != std::string::npos);
    const std::string line = answer.body.substr(begin, end - begin);
    begin = end + 1;
    if (line.starts_with("# HELP ")) continue;
    if (line.starts_with("# TYPE ")) {
      described = line.substr(7, line.find(' ', 7) - 7);
      continue;
    }
    INFO(line);
    CHECK(line.starts_with(described));
    const double value = std::stod(line.substr(line.rfind(' ') + 1));
    CHECK(value >= 0.0);
  }
  for (const char* name :
       {"sluice_kv_blocks_used 0", "sluice_kv_blocks 0", "sluice_kv_blocks_cached 0",
        "sluice_sequences_running 0", "sluice_sequences_waiting 0", "sluice_streams_open 0",
        "sluice_connections 1", "sluice_queued_bytes 0", "sluice_ready 1"}) {
    INFO(name);
    CHECK(answer.body.find("\n" + std::string(name) + "\n") != std::string::npos);
  }
}

TEST_CASE("http plan and models are JSON") {
  Running running;
  simdjson::dom::parser parser;
  const HttpAnswer plan = running.get("/v1/plan");
  const simdjson::padded_string plan_text(plan.body);
  std::string_view rule;
  REQUIRE(parser.parse(plan_text)["stop_policy"]["order"].at(0).get(rule) == simdjson::SUCCESS);
  CHECK(rule == "max_new_tokens");
  const HttpAnswer models = running.get("/v1/models");
  const simdjson::padded_string models_text(models.body);
  std::string_view id;
  REQUIRE(parser.parse(models_text)["data"].at(0)["id"].get(id) == simdjson::SUCCESS);
  CHECK(id == "stub");
}

TEST_CASE("http errors are sentences") {
  Running running;
  const auto port = running.server.port();
  const std::string host = "Host: localhost\r\n";

  const HttpAnswer missing = running.get("/no/such");
  CHECK(missing.status == 404);
  CHECK(error_of(missing) == "There is nothing at /no/such.");

  const HttpAnswer method = http_request(port, "DELETE", "/health");
  CHECK(method.status == 405);
  CHECK(method.headers.at("allow") == "GET, HEAD");
  CHECK(error_of(method) == "DELETE can't be used on /health; use GET, HEAD.");
  CHECK(http_request(port, "POST", "/", {}, "x").status == 405);

  const HttpAnswer garbage = http_exchange(port, "this is not http\r\n\r\n").front();
  CHECK(garbage.status == 400);
  CHECK(error_of(garbage).starts_with("The request is not valid HTTP/1.1"));
  CHECK(running.get("/%zz").status == 400);
  CHECK(running.get("/%00").status == 400);
  CHECK(http_exchange(port, "GET nowhere HTTP/1.1\r\nConnection: close\r\n" + host + "\r\n")
            .front()
            .status == 400);
  CHECK(http_exchange(port, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n").front().status == 400);
  CHECK(http_exchange(port, "GET / HTTP/1.1\r\nConnection: close\r\n" + host + host + "\r\n")
            .front()
            .status == 400);
  CHECK(running.get("/v1/stream").status == 426);
}

TEST_CASE("http refuses requests beyond the limits") {
  ServerOptions options = any_port();
  options.limits.max_header_bytes = 2048;
  options.limits.max_body_bytes = 1000;
  Running running(options);
  const HttpAnswer header =
      running.get("/health", "X-Filler: " + std::string(100'000, 'x') + "\r\n");
  CHECK(header.status == 431);
  CHECK(error_of(header) == "The request's headers exceed 2048 bytes.");
  const HttpAnswer body =
      http_request(running.server.port(), "POST", "/health", {}, std::string(100'000, 'x'));
  CHECK(body.status == 413);
  CHECK(error_of(body) == "The request's body exceeds 1000 bytes.");
  CHECK(http_request(running.server.port(), "POST", "/health", {}, std::string(999, 'x')).status ==
        405);
}

TEST_CASE("http ends a request that comes too slowly") {
  ServerOptions options = any_port();
  options.limits.header_timeout = std::chrono::milliseconds(100);
  Running running(options);
  // Incomplete, and the client waits: the server ends the connection without an answer.
  CHECK_THROWS_WITH(http_exchange(running.server.port(), "GET /health HTTP/1.1\r\nHos"),
                    Catch::StartsWith("no complete answer"));
}

TEST_CASE("http answers 503 beyond its connections") {
  ServerOptions options = any_port();
  options.limits.max_connections = 1;
  Running running(options);
  const WsClient holder(running.server.port());
  // The upgrade's first half may not be destroyed yet when the client has its answer; from the
  // second connection on the place is taken in any case.
  const HttpAnswer refused = running.get("/health");
  CHECK(refused.status == 503);
  CHECK(refused.headers.at("connection") == "close");
}

TEST_CASE("http answers pipelined requests in order") {
  Running running;
  const std::string host = "Host: localhost\r\n";
  const auto answers = http_exchange(
      running.server.port(),
      "GET /health HTTP/1.1\r\n" + host + "\r\n" + "HEAD /v1/plan HTTP/1.1\r\n" + host + "\r\n" +
          "POST /health HTTP/1.1\r\n" + host + "Content-Length: 4\r\n\r\nbody" +
          "GET /v1/models HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n",
      {false, true, false, false});
  REQUIRE(answers.size() == 4);
  CHECK(answers[0].body == R"({"status":"ok"})");
  CHECK(answers[1].status == 200);
  CHECK(answers[1].body.empty());
  CHECK(std::stoi(answers[1].headers.at("content-length")) > 100);
  CHECK(answers[2].status == 405);
  CHECK(answers[3].body.find("\"stub\"") != std::string::npos);
}

TEST_CASE("http serves HTTP 1 point 0 and closes") {
  Running running;
  const auto answers = http_exchange(running.server.port(), "GET /health HTTP/1.0\r\n\r\n");
  CHECK(answers.front().status == 200);
  CHECK(answers.front().headers.at("connection") == "close");
}

TEST_CASE("http checks host and origin of everything but probes") {
  ServerOptions options = any_port();
  options.allowed_origins = {"https://chat.example"};
  Running running(options);
  for (const char* target : {"/", "/v1/plan", "/v1/models", "/metrics", "/no/such"}) {
    INFO(target);
    const HttpAnswer host = running.get(target, "Host: evil.example\r\n");
    CHECK(host.status == 403);
    CHECK(error_of(host).find("evil.example") != std::string::npos);
    const HttpAnswer origin = running.get(target, "Origin: http://evil.example\r\n");
    CHECK(origin.status == 403);
    CHECK(error_of(origin).find("http://evil.example") != std::string::npos);
    CHECK(origin.headers.count("access-control-allow-origin") == 0);
  }
  const HttpAnswer allowed = running.get("/v1/plan", "Origin: https://chat.example\r\n");
  CHECK(allowed.status == 200);
  CHECK(allowed.headers.at("access-control-allow-origin") == "https://chat.example");
}

TEST_CASE("http sends security headers with every answer") {
  Running running;
  for (const char* target : {"/health", "/no/such", "/%zz"}) {
    const HttpAnswer answer = running.get(target);
    const std::string policy = answer.headers.at("content-security-policy");
    CHECK(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"));
    CHECK(policy.find("frame-ancestors 'none'") != std::string::npos);
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(answer.headers.at("x-content-type-options") == "nosniff");
    CHECK(answer.headers.at("referrer-policy") == "no-referrer");
  }
}

TEST_CASE("http serves a static folder with tags and without traversal") {
  ServerOptions options = any_port();
  options.static_dir = sluice::test::source_dir() / "web";
  Running running(options);
  const HttpAnswer file = running.get("/server.hpp");
  CHECK(file.status == 200);
  CHECK(file.body.find("class Server") != std::string::npos);
  const std::string tag = file.headers.at("etag");

  const HttpAnswer known = running.get("/server.hpp", "If-None-Match: " + tag + "\r\n");
  CHECK(known.status == 304);
  CHECK(known.body.empty());
  CHECK(known.headers.at("etag") == tag);

  const HttpAnswer head = http_request(running.server.port(), "HEAD", "/server.hpp");
  CHECK(head.status == 200);
  CHECK(head.headers.at("etag") == tag);
  CHECK(head.headers.at("content-length") == std::to_string(file.body.size()));

  for (const char* target : {"/../CMakeLists.txt", "/%2e%2e/CMakeLists.txt", "/..%2fCMakeLists.txt",
                             "/%2e%2e%2f%2e%2e%2f%2e%2e%2fetc/passwd", "/..%5cCMakeLists.txt",
                             "//etc/passwd", "http://localhost/../CMakeLists.txt"}) {
    INFO(target);
    CHECK(running.get(target).status == 404);
  }
}

TEST_CASE("a port in use is an error that says what to do") {
  Running first;
  ServerOptions options;
  options.port = first.server.port();
  Server second(first.service, options);
  CHECK_THROWS_WITH(second.start(),
                    "Port " + std::to_string(options.port) +
                        " on 127.0.0.1 is in use; end the program that has it, or choose another "
                        "with --port (0 picks a free one).");
}

TEST_CASE("the server listens beyond this machine only when told so") {
  StubService service;
  ServerOptions options = any_port();
  options.address = "0.0.0.0";
  CHECK_THROWS_WITH(Server(service, options), Catch::StartsWith("Not listening on 0.0.0.0:"));
  options.address = "somewhere";
  CHECK_THROWS_WITH(Server(service, options),
                    Catch::StartsWith("\"somewhere\" is not an IP address"));
  options.address = "0.0.0.0";
  options.insecure = true;
  Server server(service, options);
  server.start();
  CHECK(http_request(server.port(), "GET", "/v1/plan").status == 200);
  CHECK(http_request(server.port(), "GET", "/v1/plan", "Host: 10.0.0.7:80\r\n").status == 200);
  CHECK(http_request(server.port(), "GET", "/v1/plan", "Host: evil.example\r\n").status == 403);
}

TEST_CASE("the server stops and its port is free again") {
  StubService service;
  ServerOptions options = any_port();
  {
    Server server(service, options);
    server.start();
    options.port = server.port();
    CHECK(server.url() == "http://127.0.0.1:" + std::to_string(options.port));
    server.stop(std::chrono::seconds(5));
    CHECK_THROWS(http_request(options.port, "GET", "/health"));
  }
  Server next(service, options);
  next.start();
  CHECK(http_request(options.port, "GET", "/health").status == 200);
}
