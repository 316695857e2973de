#include "engine/chat/jinja/json_value.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/template.hpp"

namespace {

using namespace sluice::jinja;

/// The value as the template engine writes it back.
std::string round_trip(const std::string& json) {
  Dict context;
  context.set(Value::text("v"), value_from_json(json));
  return Template::parse("{{ v | tojson }}", "json")
      .render(Value::dict(std::move(context)), {})
      .text;
}

}  // namespace

TEST_CASE("JSON comes through unchanged") {
  for (const std::string& json : std::vector<std::string>{"null",
                                                          "true",
                                                          "false",
                                                          "0",
                                                          "-1",
                                                          "1.5",
                                                          "\"\"",
                                                          "\"a\\\"b\\\\c\\n\"",
                                                          "[]",
                                                          "{}",
                                                          "[1, [2, [3]], {\"a\": {\"b\": []}}]",
                                                          "{\"z\": 1, \"a\": 2, \"m\": 3}",
                                                          "9223372036854775807",
                                                          "-9223372036854775808",
                                                          "18446744073709551616",
                                                          "-123456789012345678901234567890",
                                                          "1e+100",
                                                          "1e-05",
                                                          "\"\xC3\xA9\xF0\x9F\xA6\x99\"",
                                                          "[true, null, \"x\"]"}) {
    CHECK(round_trip(json) == json);
  }
  CHECK(round_trip(" [ 1 ,2 ] ") == "[1, 2]");
  CHECK(round_trip("1E2") == "100.0");
  CHECK(round_trip("-0") == "0");
  CHECK(round_trip("-0.0") == "-0.0");
  CHECK(round_trip("\"\\u00e9\\ud83e\\udd99\"") == "\"\xC3\xA9\xF0\x9F\xA6\x99\"");
  CHECK(round_trip(R"({"a": 1, "b": 2, "a": 3})") == R"({"a": 3, "b": 2})");
}

TEST_CASE("what is not JSON is refused") {
  for (const std::string& json : std::vector<std::string>{
           "",         " ",           "nul",        "truex",       "[1,]",  "[1 2]", "{\"a\"}",
           "{\"a\":}", "{a:1}",       "1 2",        "[1] 2",       "1],[2", "1, 2",  "01",
           "1.",       ".5",          "+1",         "1e",          "--1",   "'a'",   "\"a",
           "\"\\x\"",  "\"\\ud800\"", "[",          "]",           "{",     "}",     "\"a\nb\"",
           "NaN",      "\xFF",        "[\"\xC3\"]", "{\"a\": 1,}", "[1}"}) {
    INFO(json);
    CHECK_THROWS_AS(value_from_json(json), Failure);
  }
  CHECK_THROWS_AS(value_from_json(std::string(100'000, '[')), Failure);
  CHECK_THROWS_AS(value_from_json(std::string(300, '[') + std::string(300, ']')), Failure);
}

TEST_CASE("strings from JSON are untrusted unless the caller says otherwise") {
  const Value untrusted = value_from_json(R"(["a", {"k": ""}])");
  CHECK(untrusted.items()[0].as_text().any_untrusted());
  CHECK(untrusted.items()[1].as_dict().entries()[0].first.as_text().any_untrusted());
  CHECK_FALSE(untrusted.items()[1].as_dict().find("k")->as_text().any_untrusted());  // empty
  CHECK_FALSE(value_from_json("\"a\"", false).as_text().any_untrusted());
}
