// What the tests of the WebSocket side share: frames, stories made of them, a running server.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "tests/support/stub_service.hpp"
#include "tests/web/clients.hpp"
#include "web/server.hpp"

namespace sluice::test {

struct Frame {
  std::string text;
  std::string type, id, content, code, rule, detail, stream, phase, message;
  std::uint64_t n = 0;
  std::size_t tokens = 0;
  bool terminal() const { return !id.empty() && (type == "done" || type == "error"); }
};

inline Frame read_frame(const std::string& text) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded(text);
  simdjson::dom::element root;
  INFO(text);
  REQUIRE(parser.parse(padded).get(root) == simdjson::SUCCESS);
  const auto field = [&](const char* name) {
    std::string_view value;
    return root[name].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
  };
  Frame frame{text,
              field("type"),
              field("id"),
              field("text"),
              field("code"),
              field("rule"),
              field("detail"),
              field("stream"),
              field("phase"),
              field("message"),
              0,
              0};
  if (root["n"].get(frame.n) != simdjson::SUCCESS) frame.n = 0;
  simdjson::dom::array tokens;
  if (root["tokens"].get(tokens) == simdjson::SUCCESS) frame.tokens = tokens.size();
  return frame;
}

/// The next frame; fails the test when the connection has ended.
inline Frame next(WsClient& client) {
  const auto text = client.receive();
  REQUIRE(text);
  return read_frame(*text);
}

/// Everything of one stream up to its terminal event, from wherever listening began.
struct Story {
  bool begun = false;
  std::string text;
  std::size_t tokens = 0;
  std::size_t accepted = 0;
  std::uint64_t n = 0;
  Frame end;
  void add(const Frame& frame) {
    INFO(frame.text);
    REQUIRE_FALSE(end.terminal());
    const bool counts = frame.type != "heartbeat";
    const std::uint64_t events = std::max<std::size_t>(frame.tokens, 1);  // joined ones count all
    if (begun) CHECK(frame.n == n + (counts ? events : 0));
    begun = true;
    n = frame.n;
    text += frame.content;
    tokens += frame.tokens;
    accepted += frame.type == "accepted" ? 1U : 0U;
    if (frame.terminal()) end = frame;
  }
};

inline Story listen(WsClient& client, const std::string& id) {
  Story story;
  while (!story.end.terminal()) {
    const Frame frame = next(client);
    if (frame.id == id) story.add(frame);
  }
  return story;
}

inline std::string generate(const std::string& id, const std::string& prompt) {
  return R"({"type":"generate","id":")" + id + R"(","prompt":")" + prompt + R"("})";
}

/// A stream that is kept.
inline std::string generate_kept(const std::string& id, const std::string& prompt,
                                 int keep_ms = 60000) {
  return R"({"type":"generate","id":")" + id + R"(","prompt":")" + prompt + R"(","keep_ms":)" +
         std::to_string(keep_ms) + "}";
}

inline std::string resume(const std::string& id, const std::string& stream, std::uint64_t after) {
  return R"({"type":"resume","id":")" + id + R"(","stream":")" + stream + R"(","after":)" +
         std::to_string(after) + "}";
}

inline std::string cancel(const std::string& id) {
  return R"({"type":"cancel","id":")" + id + R"("})";
}

inline std::string counted(std::size_t tokens) {
  std::string text;
  for (std::size_t i = 1; i <= tokens; ++i) text += "t" + std::to_string(i) + " ";
  return text;
}

inline web::ServerOptions any_port() {
  web::ServerOptions options;
  options.port = 0;
  return options;
}

struct Running {
  explicit Running(const web::ServerOptions& options = any_port(), std::uint64_t window = 16,
                   std::size_t bytes_per_token = 0)
      : service(window, bytes_per_token), server(service, options) {
    server.start();
  }
  WsClient connect(const UpgradeOptions& options = {}) const {
    WsClient client(server.port(), options);
    REQUIRE(next(client).type == "hello");
    return client;
  }
  /// Waits until the metrics have this line.
  bool wait_for_metric(const std::string& line) {
    return service.wait_until([&] {
      return http_request(server.port(), "GET", "/metrics").body.find("\n" + line + "\n") !=
             std::string::npos;
    });
  }
  StubService service;
  web::Server server;
};

}  // namespace sluice::test
