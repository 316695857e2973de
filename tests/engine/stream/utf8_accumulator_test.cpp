#include "engine/stream/utf8_accumulator.hpp"

#include <catch2/catch.hpp>

#include "tests/engine/stream/random_text.hpp"
#include "tests/support/reference_stop.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// The reference says what is whole; a last incomplete code point is one replacement at the end.
std::string finished_text(const std::string& bytes) {
  const DecodedText decoded = decode_plainly(bytes);
  return decoded.text + (decoded.open ? "\uFFFD" : "");
}

}  // namespace

TEST_CASE("a code point split over appends comes out whole") {
  Utf8Accumulator accumulator;
  std::string out;
  accumulator.append("\xF0\x9F", out);
  CHECK(out.empty());
  CHECK(accumulator.pending() == 2);
  accumulator.append("\x98\x80!", out);
  CHECK(out == "\U0001F600!");
  CHECK(accumulator.pending() == 0);
}

TEST_CASE("invalid bytes follow the table of maximal subparts") {
  // The examples of Unicode 15, tables 3-8 to 3-11.
  const std::string r = "\uFFFD";
  CHECK(to_valid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") ==
        r + r + r + r + r + r + r + r + "A");
  CHECK(to_valid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") ==
        r + r + r + r + r + r + r + r + "A");
  CHECK(to_valid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") ==
        r + r + r + r + r + "A" + r + r + "B");
  CHECK(to_valid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == r + r + r + r + "A");
}

TEST_CASE("an incomplete tail is replaced once at the end") {
  Utf8Accumulator accumulator;
  std::string out;
  accumulator.append("x\xF0\x9F\x98", out);
  CHECK(out == "x");
  accumulator.finish(out);
  accumulator.finish(out);
  CHECK(out == "x\uFFFD");
}

TEST_CASE("random bytes in random splits equal the plain decoder") {
  RandomText random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string bytes = random.bytes(random.below(12));
    Utf8Accumulator accumulator;
    std::string out;
    std::string fed;
    for (const std::string& part : random.split(bytes, 4)) {
      accumulator.append(part, out);
      fed += part;
      const DecodedText expected = decode_plainly(fed);
      REQUIRE(out == expected.text);
      REQUIRE((accumulator.pending() > 0) == expected.open);
      REQUIRE(accumulator.pending() <= 3);
    }
    accumulator.finish(out);
    REQUIRE(out == finished_text(bytes));
    REQUIRE(to_valid_utf8(bytes) == out);
    REQUIRE(is_valid_utf8(out));
    REQUIRE(is_valid_utf8(bytes) == (bytes == out));
  }
}

TEST_CASE("every sequence of two bytes equals the plain decoder") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string bytes = {static_cast<char>(first), static_cast<char>(second)};
      REQUIRE(to_valid_utf8(bytes) == finished_text(bytes));
    }
  }
}
