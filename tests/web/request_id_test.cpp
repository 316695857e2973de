#include "web/request_id.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>

namespace {

using sluice::web::request_id_from;

constexpr std::string_view kHarmless =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:/+=@";

}  // namespace

TEST_CASE("a request keeps the id it came with when that can do no harm", "[log]") {
  CHECK(request_id_from("proxy-7.a/b:c+d=e@f_g") == "proxy-7.a/b:c+d=e@f_g");
  CHECK(request_id_from(std::string(128, 'x')) == std::string(128, 'x'));
  CHECK(request_id_from(std::string(129, 'x')).size() == 22);
  CHECK(request_id_from("").size() == 22);
  for (int byte = 0; byte < 256; ++byte) {
    const std::string id = std::string("a") + static_cast<char>(byte) + "b";
    const bool harmless = kHarmless.find(static_cast<char>(byte)) != std::string_view::npos;
    INFO(byte);
    CHECK((request_id_from(id) == id) == harmless);
  }
}

TEST_CASE("new ids are all different and harmless", "[log]") {
  std::set<std::string> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(request_id_from("not one"));
  CHECK(ids.size() == 2000);
  for (const std::string& id : ids) {
    CHECK(id.size() == 22);
    CHECK(id.find_first_not_of(kHarmless) == std::string::npos);
  }
}
