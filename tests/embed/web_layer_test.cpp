// The web layer on connections that a host hands over.
#include "sluice/web.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <string>

#include "embed/engine_core.hpp"
#include "tests/support/scripted_engine.hpp"

namespace {

using namespace sluice;

/// Both ends of a TCP connection on this machine.
struct Wire {
  int client = -1;
  int server = -1;

  Wire() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener, plain, size) == 0);
    REQUIRE(::listen(listener, 1) == 0);
    REQUIRE(::getsockname(listener, plain, &size) == 0);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    REQUIRE(::connect(client, plain, size) == 0);
    server = ::accept(listener, nullptr, nullptr);
    REQUIRE(server >= 0);
    ::close(listener);
  }
  ~Wire() { ::close(client); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Everything until the other end closes.
  std::string read_all() const {
    std::string text;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::recv(client, bytes, sizeof(bytes), 0)) > 0;) {
      text.append(bytes, static_cast<std::size_t>(n));
    }
    return text;
  }
};

v0::Engine scripted() {
  return embed::Access::make_engine(test::scripted_engine({}));
}

std::string get(const std::string& target, const std::string& host = "localhost") {
  return "GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n";
}

TEST_CASE("a web layer knows what is below its prefix") {
  v0::Engine engine = scripted();
  const v0::WebLayer web(engine, {.prefix = "/llm/"});
  CHECK(web.owns("/llm"));
  CHECK(web.owns("/llm?x"));
  CHECK(web.owns("/llm/v1/stream"));
  CHECK_FALSE(web.owns("/"));
  CHECK_FALSE(web.owns("/llmx"));
  CHECK_FALSE(web.owns("/x/llm/"));
  CHECK(web.inner_target("/llm/v1/stream?a=b") == "/v1/stream?a=b");
  CHECK(web.inner_target("/llm/") == "/");
  CHECK_FALSE(web.inner_target("/llm"));
  CHECK_FALSE(web.inner_target("/llm?x"));
  const v0::WebLayer root(engine, {});
  CHECK(root.owns("/anything"));
  CHECK(root.inner_target("/anything") == "/anything");
  for (const char* bad : {"llm", "//llm", "/a b", "/a?b", "/a\r\nb"}) {
    CHECK_THROWS_AS(v0::WebLayer(engine, {.prefix = bad}), v0::Error);
  }
  CHECK_THROWS_AS(v0::WebLayer(engine, {.hosts = {"not a host"}}), v0::Error);
}

TEST_CASE("a web layer answers on connections that were handed over") {
  v0::Engine engine = scripted();
  v0::WebLayer web(engine, {.prefix = "/llm", .hosts = {"host.example"}});
  const auto answer_to = [&](const std::string& bytes) {
    const Wire wire;
    web.adopt(wire.server, bytes);
    return wire.read_all();
  };
  CHECK(answer_to(get("/health")).find("200 OK") != std::string::npos);
  CHECK(answer_to(get("/", "host.example")).find("<title>") != std::string::npos);
  CHECK(answer_to(get("/v1/models", "evil.example")).find("403") != std::string::npos);
  CHECK(answer_to("nonsense\r\n\r\n").find("400") != std::string::npos);

  // The rest of a request may still be on its way.
  const Wire slow;
  const std::string whole = get("/health");
  web.adopt(slow.server, whole.substr(0, 20));
  REQUIRE(::send(slow.client, whole.data() + 20, whole.size() - 20, 0) > 0);
  CHECK(slow.read_all().find("200 OK") != std::string::npos);

  const Wire redirected;
  web.redirect(redirected.server);
  CHECK(redirected.read_all().find("Location: /llm/\r\n") != std::string::npos);
}

TEST_CASE("a Beast connection is handed over with its request") {
  namespace http = boost::beast::http;
  v0::Engine engine = scripted();
  v0::WebLayer web(engine, {.prefix = "/llm"});
  for (const bool bare : {false, true}) {
    boost::asio::io_context context;
    const Wire wire;
    boost::beast::tcp_stream stream(context);
    stream.socket().assign(boost::asio::ip::tcp::v4(), wire.server);
    http::request<http::string_body> request{http::verb::get, bare ? "/llm" : "/llm/ready", 11};
    request.set(http::field::host, "localhost");
    hand_over(web, stream, std::move(request), {});
    CHECK_FALSE(stream.socket().is_open());
    CHECK(wire.read_all().find(bare ? "308" : "200 OK") != std::string::npos);
  }
}

TEST_CASE("a web layer that stops ends its connections and takes no more") {
  v0::Engine engine = scripted();
  v0::WebLayer web(engine, {});
  const Wire idle;
  web.adopt(idle.server, {});
  web.stop(std::chrono::milliseconds(0));
  (void)idle.read_all();  // returns: it was closed
  const Wire late;
  web.adopt(late.server, get("/health"));
  CHECK(late.read_all().empty());
  web.adopt(-1, {});
}

}  // namespace
