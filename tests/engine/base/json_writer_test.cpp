// Everything the writer gives is read back by simdjson, a parser that shares no code with it.
#include "engine/base/json_writer.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

using sluice::JsonWriter;

namespace {

std::string write_text(std::string_view text) {
  JsonWriter json;
  json.value(text);
  return json.take();
}

/// Parses a JSON document that is one string.
std::string read_text(const std::string& json) {
  simdjson::dom::parser parser;
  const simdjson::padded_string padded("[" + json + "]");
  std::string_view text;
  REQUIRE(parser.parse(padded).at(0).get(text) == simdjson::SUCCESS);
  return std::string(text);
}

/// A naive second opinion: the code point at the front of `text` by trying to encode every
/// candidate, or -1.
bool is_whole_code_point(std::string_view bytes) {
  for (unsigned code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string encoded;
    const auto put = [&](unsigned byte) { encoded += static_cast<char>(byte); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0U | (code >> 6U)), put(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
      put(0xE0U | (code >> 12U)), put(0x80U | ((code >> 6U) & 0x3FU)), put(0x80U | (code & 0x3FU));
    } else {
      put(0xF0U | (code >> 18U)), put(0x80U | ((code >> 12U) & 0x3FU));
      put(0x80U | ((code >> 6U) & 0x3FU)), put(0x80U | (code & 0x3FU));
    }
    if (encoded == bytes) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("json writer nests objects and arrays with the right commas") {
  JsonWriter json;
  json.begin_object().field("a", 1).key("b").begin_array().value(true).null().begin_object();
  json.end_object().end_array().key("c").begin_object().field("d", "x").end_object();
  json.key("e").raw("[1,2]").field("f", false).end_object();
  CHECK(json.str() == R"({"a":1,"b":[true,null,{}],"c":{"d":"x"},"e":[1,2],"f":false})");
}

TEST_CASE("json writer starts anew after take and after clear") {
  JsonWriter json;
  json.begin_array().value(1).end_array();
  CHECK(json.take() == "[1]");
  json.begin_object().key("x");
  json.clear();
  json.begin_array().value(2).end_array();
  CHECK(json.take() == "[2]");
}

TEST_CASE("json writer escapes what must be escaped") {
  CHECK(write_text("\"\\/\b\f\n\r\t") == R"("\"\\/\b\f\n\r\t")");
  CHECK(write_text(std::string_view("\0\x01\x1f\x7f", 4)) == R"("\u0000\u0001\u001f\u007f")");
  CHECK(write_text("\xE2\x80\xA8\xE2\x80\xA9") == R"("\u2028\u2029")");
  CHECK(write_text("caf\xC3\xA9 \xF0\x9F\x8C\x8A") == "\"caf\xC3\xA9 \xF0\x9F\x8C\x8A\"");
}

TEST_CASE("json writer replaces invalid UTF-8 as browsers do") {
  const std::string r = "\xEF\xBF\xBD";
  CHECK(write_text("a\x80z") == "\"a" + r + "z\"");
  CHECK(write_text("\xC0\xAF") == "\"" + r + r + "\"");                  // overlong
  CHECK(write_text("\xED\xA0\x80") == "\"" + r + r + r + "\"");          // surrogate
  CHECK(write_text("\xF4\x90\x80\x80") == "\"" + r + r + r + r + "\"");  // above U+10FFFF
  CHECK(write_text("\xF0\x9F\x8C") == "\"" + r + "\"");                  // cut off: one
  CHECK(write_text("\xF0\x9F\x8C!") == "\"" + r + "!\"");
  CHECK(write_text("\xE2\x82\xE2\x82\xAC") == "\"" + r + "\xE2\x82\xAC\"");
  CHECK(write_text("\xFF\xFE") == "\"" + r + r + "\"");
}

TEST_CASE("json writer agrees with a naive encoder on every two byte sequence") {
  for (unsigned a = 0x80; a < 0x100; a += 3) {
    for (unsigned b = 0x80; b < 0x100; b += 5) {
      const std::string bytes{static_cast<char>(a), static_cast<char>(b)};
      const bool kept = write_text(bytes) == "\"" + bytes + "\"";
      if (a < 0xC0 || a >= 0xE0) {
        CHECK_FALSE(kept);
      } else {
        CHECK(kept == is_whole_code_point(bytes));
      }
    }
  }
}

TEST_CASE("json writer survives random bytes and simdjson reads them back") {
  std::mt19937 random(20260101);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 60, '\0');
    for (char& c : bytes) {
      // Mostly bytes that matter to UTF-8, so that valid, broken and cut sequences all occur.
      const unsigned roll = random() % 4;
      c = static_cast<char>(roll == 0   ? random() % 128
                            : roll == 1 ? 0xC0 + random() % 64
                                        : random() % 256);
    }
    JsonWriter json;
    json.begin_object().field(bytes, bytes).end_object();
    simdjson::dom::parser parser;
    simdjson::dom::element document;
    const simdjson::padded_string padded(json.str());
    REQUIRE(parser.parse(padded).get(document) == simdjson::SUCCESS);
    const simdjson::dom::object object = document;
    for (const auto& [key, value] : object) {
      std::string_view text;
      REQUIRE(value.get(text) == simdjson::SUCCESS);
      CHECK(key == text);
      // Valid input comes back unchanged.
      if (simdjson::validate_utf8(bytes)) CHECK(text == bytes);
    }
  }
}

TEST_CASE("json writer gives whole text back") {
  const std::string text = "line\nquote\" back\\ null" + std::string(1, '\0') + " \xE2\x80\xA8 end";
  CHECK(read_text(write_text(text)) == text);
}

TEST_CASE("json writer writes integers at their limits") {
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<std::int64_t>::min());
  json.value(std::numeric_limits<std::uint64_t>::max()).value(std::int32_t{-7});
  json.value(std::uint32_t{4000000000U}).end_array();
  CHECK(json.str() == "[-9223372036854775808,18446744073709551615,-7,4000000000]");
}

TEST_CASE("json writer writes floats in the shortest form and no NaN") {
  JsonWriter json;
  json.begin_array().value(0.1F).value(0.1).value(0.0).value(1e300).value(-2.5);
  json.value(std::numeric_limits<double>::quiet_NaN());
  json.value(-std::numeric_limits<float>::infinity()).end_array();
  CHECK(json.str() == "[0.1,0.1,0,1e+300,-2.5,null,null]");
}

TEST_CASE("json writer doubles and floats read back bit for bit") {
  std::mt19937_64 random(7);
  simdjson::dom::parser parser;
  for (int round = 0; round < 5000; ++round) {
    const std::uint64_t bits = random();
    double number = 0.0;
    std::memcpy(&number, &bits, sizeof number);
    const auto small_bits = static_cast<std::uint32_t>(bits);
    float small = 0.0F;
    std::memcpy(&small, &small_bits, sizeof small);
    if (!std::isfinite(number) || !std::isfinite(small)) continue;

    JsonWriter json;
    json.begin_array().value(number).value(small).end_array();
    const simdjson::padded_string padded(json.str());
    simdjson::dom::array array;
    REQUIRE(parser.parse(padded).get(array) == simdjson::SUCCESS);
    double first = 0.0;
    double second = 0.0;
    REQUIRE(array.at(0).get(first) == simdjson::SUCCESS);
    REQUIRE(array.at(1).get(second) == simdjson::SUCCESS);
    CHECK(first == number);
    CHECK(static_cast<float>(second) == small);
  }
}
