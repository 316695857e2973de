#include "web/origin_policy.hpp"

#include <catch2/catch.hpp>

#include "engine/base/error.hpp"

using sluice::Error;
using sluice::web::OriginPolicy;
using sluice::web::parse_host;

namespace {

bool passes(const OriginPolicy& policy, const char* host, const char* origin = "") {
  return policy.refusal(host, origin).empty();
}

}  // namespace

TEST_CASE("origin policy answers to loopback names and the bound address only") {
  const OriginPolicy policy("192.168.1.5", 8080, {"chat.example"}, {});
  for (const char* host : {"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "[::1]",
                           "192.168.1.5:8080", "chat.example", "Chat.Example:443"}) {
    INFO(host);
    CHECK(passes(policy, host));
  }
  for (const char* host :
       {"", "evil.example", "localhost.evil.example", "192.168.1.6", "127.0.0.1.evil.example",
        "localhost:8080:1", "local host", "localhost/", "[::1", "[localhost]", "user@localhost",
        "localhost:99999", "localhost:x"}) {
    INFO(host);
    CHECK_FALSE(passes(policy, host));
  }
}

TEST_CASE("origin policy lets in its own page and refuses others") {
  const OriginPolicy policy("127.0.0.1", 8080, {}, {"https://chat.example", "http://dev:5173"});
  struct Case {
    const char* host;
    const char* origin;
    bool allowed;
  };
  const Case cases[] = {
      {"localhost:8080", "http://localhost:8080", true},
      {"localhost:8080", "http://127.0.0.1:8080", true},  // the same server by another name
      {"localhost:9000", "http://localhost:9000", true},  // a forwarded port
      {"localhost", "http://localhost", true},
      {"localhost", "https://localhost", true},
      {"localhost:8080", "https://chat.example", true},
      {"localhost:8080", "https://CHAT.example:443", true},
      {"localhost:8080", "http://dev:5173", true},
      {"localhost:8080", "http://chat.example", false},
      {"localhost:8080", "https://chat.example:444", false},
      {"localhost:8080", "http://localhost:3000", false},
      {"localhost:8080", "http://evil.example", false},
      {"localhost:8080", "http://evil.example:8080", false},
      {"localhost:8080", "http://localhost.evil.example:8080", false},
      {"localhost:8080", "null", false},
      {"localhost:8080", "file://", false},
      {"localhost:8080", "http://localhost:8080/path", false},
      {"localhost:8080", "http://localhost:8080@evil.example", false},
      {"localhost:8080", "chrome-extension://abc", false},
      {"evil.example", "http://evil.example", false},  // a rebound name
  };
  for (const Case& c : cases) {
    INFO(c.host << " " << c.origin);
    CHECK(passes(policy, c.host, c.origin) == c.allowed);
  }
}

TEST_CASE("origin policy takes addresses but no names when it listens everywhere") {
  const OriginPolicy policy("0.0.0.0", 8080, {}, {});
  CHECK(passes(policy, "10.1.2.3:8080"));
  CHECK(passes(policy, "[fe80::1]:8080", "http://[fe80::1]:8080"));
  CHECK_FALSE(passes(policy, "rebound.example:8080"));
}

TEST_CASE("origin policy says what it refuses") {
  const OriginPolicy policy("127.0.0.1", 8080, {}, {});
  CHECK(policy.refusal("evil.example", "").find("\"evil.example\"") != std::string::npos);
  CHECK(policy.refusal("localhost", "http://evil.example").find("\"http://evil.example\"") !=
        std::string::npos);
}

TEST_CASE("origin policy refuses settings that name nothing") {
  CHECK_THROWS_AS(OriginPolicy("127.0.0.1", 1, {"http://x"}, {}), Error);
  CHECK_THROWS_AS(OriginPolicy("127.0.0.1", 1, {}, {"chat.example"}), Error);
  CHECK_THROWS_AS(OriginPolicy("127.0.0.1", 1, {}, {"https://chat.example/path"}), Error);
}

TEST_CASE("hosts are split into name and port") {
  REQUIRE(parse_host("Example.org:81"));
  CHECK(parse_host("Example.org:81")->host == "example.org");
  CHECK(parse_host("Example.org:81")->port == 81);
  CHECK_FALSE(parse_host("example.org")->port);
  CHECK(parse_host("[::1]:9")->host == "::1");
  CHECK(parse_host("[::1]:9")->port == 9);
}
