// Hostile bytes and hostile manners: what the server does about each, over real sockets.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/web/ws_support.hpp"

using namespace sluice;
using namespace sluice::test;
using std::chrono::milliseconds;
using web::ServerOptions;

namespace {

const std::string kHost = "Host: localhost\r\n";

/// The statuses of all answers to these bytes, until the server closes.
std::vector<int> statuses(const Running& running, const std::string& bytes, std::size_t answers) {
  std::vector<int> found;
  for (const HttpAnswer& answer :
       http_exchange(running.server.port(), bytes, std::vector<bool>(answers, false))) {
    found.push_back(answer.status);
  }
  return found;
}

/// Sends this and then nothing more; returns when the server ends the connection, without a word.
void wait_for_end(const Running& running, const std::string& bytes) {
  const RawClient client(running.server.port());
  if (!bytes.empty()) client.send(bytes);
  CHECK(client.receive().empty());
}

}  // namespace

TEST_CASE("security: a request whose length can be read in two ways is refused and ends it") {
  const Running running;
  const std::string smuggled = "GET /health HTTP/1.1\r\n" + kHost + "\r\n";
  const auto post = [&](const std::string& headers, const std::string& body) {
    // What follows must not be answered as a second request.
    return statuses(running,
                    "POST /tokenize HTTP/1.1\r\n" + kHost + headers + "\r\n" + body + smuggled, 1);
  };
  const std::vector<int> kRefused{400};
  CHECK(post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: 5, 5\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: +5\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: -5\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: 0x5\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: 99999999999999999999\r\n", "hello") == kRefused);
  CHECK(post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: identity\r\n", "0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n") ==
        kRefused);
  CHECK(post("Content-Length : 5\r\n", "hello") == kRefused);
  CHECK(post("Transfer-Encoding: chunked\r\n", "5 \nhello\r\n0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n") == kRefused);
  CHECK(post("Transfer-Encoding: chunked\r\n", "10000000000000000\r\nhello\r\n0\r\n\r\n") ==
        kRefused);
  CHECK(statuses(running,
                 "POST /tokenize HTTP/1.0\r\n" + kHost +
                     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
                 1) == kRefused);
}

TEST_CASE("security: chunked requests that are right are read") {
  const Running running;
  const std::string last = "GET /health HTTP/1.1\r\nConnection: close\r\n" + kHost + "\r\n";
  CHECK(statuses(running,
                 "POST /v1/completions HTTP/1.1\r\n" + kHost +
                     "Transfer-Encoding: chunked\r\n\r\n"
                     "5\r\n{\"pro\r\n12;ext=1\r\nmpt\":\"count 1234\"}\r\n0\r\n\r\n" +
                     last,
                 2) == std::vector<int>{200, 200});
}

TEST_CASE("security: odd header lines are refused") {
  const Running running;
  const auto with = [&](const std::string& lines) {
    return statuses(running, "GET /health HTTP/1.1\r\n" + kHost + lines + "\r\n", 1).front();
  };
  CHECK(with("No colon here\r\n") == 400);
  CHECK(with(": no name\r\n") == 400);
  CHECK(with("Sp ace: x\r\n") == 400);
  CHECK(with(std::string("Zero: a\0b\r\n", 11)) == 400);
  CHECK(with("Bare: a\nX: b\r\n") == 400);
  CHECK(statuses(running, "GET /health HTTP/2.0\r\n" + kHost + "\r\n", 1).front() == 400);
  CHECK(statuses(running, "GET  /health HTTP/1.1\r\n" + kHost + "\r\n", 1).front() == 400);
  CHECK(statuses(running, "GET /he\x01lth HTTP/1.1\r\n" + kHost + "\r\n", 1).front() == 400);
}

TEST_CASE("security: headers and bodies over the limit are refused") {
  ServerOptions options = any_port();
  options.limits.max_header_bytes = 4096;
  options.limits.max_body_bytes = 1000;
  const Running running(options);
  const std::string post = "POST /tokenize HTTP/1.1\r\n" + kHost;
  const std::vector<int> kLarge{413};
  CHECK(statuses(running, "GET /" + std::string(10'000, 'a') + " HTTP/1.1\r\n" + kHost + "\r\n",
                 1) == std::vector<int>{431});
  std::string many = "GET / HTTP/1.1\r\n" + kHost;
  for (int i = 0; i < 500; ++i) many += "X-" + std::to_string(i) + ": 1\r\n";
  CHECK(statuses(running, many + "\r\n", 1) == std::vector<int>{431});
  // However it comes: here in pieces that are small by themselves.
  {
    const RawClient client(running.server.port());
    client.send("GET / HTTP/1.1\r\n" + kHost);
    try {
      for (int i = 0; i < 2000; ++i) client.send("X-" + std::to_string(i) + ": 1\r\n");
    } catch (const std::runtime_error&) {
      // It is over already.
    }
    CHECK(client.receive().find("431") != std::string::npos);
  }
  // By its announcement, before it comes; and in chunks, which announce nothing.
  CHECK(statuses(running, post + "Content-Length: 1001\r\n\r\n", 1) == kLarge);
  CHECK(statuses(running, post + "Content-Length: 9000000000000000000\r\n\r\n", 1) == kLarge);
  std::string chunks = post + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunks += "64\r\n" + std::string(100, 'x') + "\r\n";
  CHECK(statuses(running, chunks, 1) == kLarge);
  // What is not the body itself counts as well: trailers, extensions of chunks.
  std::string trailers = post + "Transfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 2000; ++i) trailers += "X-" + std::to_string(i) + ": 1\r\n";
  CHECK(statuses(running, trailers + "\r\n", 1) == kLarge);
  const std::string extended = "1;" + std::string(500, 'e') + "\r\nx\r\n";
  std::string extensions = post + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 100; ++i) extensions += extended;
  CHECK(statuses(running, extensions, 1) == kLarge);
}

TEST_CASE("security: a client that waits to be asked for its body is asked") {
  const Running running;
  const auto answers = http_exchange(
      running.server.port(),
      "POST /v1/completions HTTP/1.1\r\nConnection: close\r\n" + kHost +
          "Expect: 100-continue\r\nContent-Length: 20\r\n\r\n{\"prompt\":\"count 1\"} ",
      {true, false});
  CHECK(answers[0].status == 100);
  CHECK(answers[1].status == 200);
}

TEST_CASE("security: slow requests end at each stage") {
  ServerOptions options = any_port();
  options.limits.header_timeout = milliseconds(80);
  options.limits.body_timeout = milliseconds(80);
  options.limits.keep_alive_timeout = milliseconds(80);
  const Running running(options);
  wait_for_end(running, "");
  wait_for_end(running, "GET /health HT");
  wait_for_end(running, "GET /health HTTP/1.1\r\n" + kHost + "X: ");
  wait_for_end(running, "POST /tokenize HTTP/1.1\r\n" + kHost + "Content-Length: 9\r\n\r\n{");
  CHECK(statuses(running, "GET /health HTTP/1.1\r\n" + kHost + "\r\n", 1) == std::vector<int>{200});
}

TEST_CASE("security: a request that drips ends in time all the same") {
  ServerOptions options = any_port();
  options.limits.header_timeout = milliseconds(150);
  Running running(options);
  const RawClient client(running.server.port());
  // A byte now and then would keep a limit on silence alone waiting for ever.
  bool open = true;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; open && i < 400; ++i) {
    try {
      client.send("a");
    } catch (const std::runtime_error&) {
      open = false;
    }
    std::this_thread::sleep_for(milliseconds(25));
  }
  CHECK_FALSE(open);
  CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(100));
}

TEST_CASE("security: one address has only so many connections") {
  ServerOptions options = any_port();
  options.limits.max_connections_per_address = 2;
  Running running(options);
  {
    const WsClient one = running.connect();
    const WsClient two = running.connect();
    const HttpAnswer refused = http_request(running.server.port(), "GET", "/health");
    CHECK(refused.status == 429);
    CHECK(refused.headers.at("retry-after") == "1");
    CHECK(refused.body.find("too_many_connections") != std::string::npos);
  }
  // Their places come back.
  CHECK(running.service.wait_until(
      [&] { return http_request(running.server.port(), "GET", "/health").status == 200; }));
}

TEST_CASE("security: no path leads out of the page") {
  namespace fs = std::filesystem;
  const fs::path base = fs::temp_directory_path() / ("sluice-out-" + std::to_string(getpid()));
  fs::create_directories(base / "page");
  std::ofstream(base / "secret.txt") << "secret";
  std::ofstream(base / "page" / ".hidden") << "secret";
  std::ofstream(base / "page" / "index.html") << "page";
  fs::create_symlink(base / "secret.txt", base / "page" / "link.txt");
  ServerOptions options = any_port();
  options.static_dir = base / "page";
  const Running running(options);
  CHECK(http_request(running.server.port(), "GET", "/").body == "page");
  for (const char* target :
       {"/../secret.txt", "/./../secret.txt", "/page/../../secret.txt", "/%2e%2e/secret.txt",
        "/%2e%2e%2fsecret.txt", "/..%5csecret.txt", "/%252e%252e/secret.txt", "//secret.txt",
        "/....//secret.txt", "/.hidden", "/link.txt", "/index.html/../../secret.txt",
        "/%c0%ae%c0%ae/secret.txt", "/..;/secret.txt"}) {
    INFO(target);
    const HttpAnswer answer = http_request(running.server.port(), "GET", target);
    CHECK(answer.status != 200);
    CHECK(answer.body.find("\"secret\"") == std::string::npos);
  }
  fs::remove_all(base);
}

TEST_CASE("security: websocket frames that are wrong end the connection with their code") {
  ServerOptions options = any_port();
  options.limits.max_frame_bytes = 1000;
  const Running running(options);
  {
    WsClient client = running.connect();
    client.send("\xff\xfe\"not UTF-8\"");
    CHECK_FALSE(client.receive());
    CHECK(client.close_code() == 1007);
  }
  {
    WsClient client = running.connect();
    client.send(R"({"type":"cancel","id":")" + std::string(1000, 'x') + "\"}");
    CHECK_FALSE(client.receive());
    CHECK(client.close_code() == 1009);
  }
  {
    // Deep nesting is an error of the frame, not of the stack.
    WsClient client = running.connect();
    client.send(std::string(900, '['));
    CHECK(next(client).code == "invalid_json");
    client.send(generate("a", "count 1"));
    CHECK(listen(client, "a").end.type == "done");
  }
}

TEST_CASE("security: a frame that is not masked or compressed without leave ends the connection") {
  const Running running;
  const std::string upgrade =
      "GET /v1/stream HTTP/1.1\r\n" + kHost +
      "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
      "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
      "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n";
  const auto answer_to = [&](const std::string& frame) {
    const RawClient client(running.server.port());
    client.send(upgrade);
    const std::string head = client.receive("\"sampling\"");  // and the hello
    CHECK(head.find("101 Switching Protocols") != std::string::npos);
    CHECK(head.find("permessage-deflate") == std::string::npos);
    client.send(frame);
    return client.receive();  // until the server ends it
  };
  const std::string protocol_error("\x88\x02\x03\xea", 4);  // a close frame with 1002
  // permessage-deflate is not granted, so nothing can be made to swell: its bit is an error.
  WsClient plain = running.connect();
  const std::string unmasked("\x81\x02{}", 4);
  const std::string compressed("\xc1\x82\x00\x00\x00\x00{}", 8);
  CHECK(answer_to(unmasked).find(protocol_error) != std::string::npos);
  CHECK(answer_to(compressed).find(protocol_error) != std::string::npos);
  plain.send(generate("a", "count 1"));
  CHECK(listen(plain, "a").end.type == "done");
}

TEST_CASE("security: answers to pages of other origins are shared only where configured") {
  ServerOptions options = any_port();
  options.allowed_origins = {"https://chat.example"};
  const Running running(options);
  const auto preflight = [&](const std::string& origin) {
    return http_request(running.server.port(), "OPTIONS", "/v1/completions",
                        "Origin: " + origin + "\r\nAccess-Control-Request-Method: POST\r\n");
  };
  const HttpAnswer yes = preflight("https://chat.example");
  CHECK(yes.status == 204);
  CHECK(yes.headers.at("access-control-allow-origin") == "https://chat.example");
  CHECK(yes.headers.at("access-control-allow-headers") == "authorization, content-type");
  const HttpAnswer no = preflight("https://evil.example");
  CHECK(no.status == 403);
  CHECK(no.headers.count("access-control-allow-origin") == 0);
  CHECK(no.headers.count("strict-transport-security") == 0);
  // The server's own page, and a program: no CORS at all.
  const std::string own = "http://localhost:" + std::to_string(running.server.port());
  const HttpAnswer same =
      http_request(running.server.port(), "GET", "/v1/models",
                   "Origin: " + own + "\r\n" + "Host: " + own.substr(7) + "\r\n");
  CHECK(same.status == 200);
  CHECK(same.headers.count("access-control-allow-origin") == 0);
}
