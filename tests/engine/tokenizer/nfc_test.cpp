// Unicode normalization form C against the equivalences that define it.
#include "engine/tokenizer/nfc.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "engine/tokenizer/nfc_tables.hpp"
#include "tests/engine/tokenizer/small_vocabularies.hpp"

namespace sluice {
namespace {

using test::utf8;

TEST_CASE("letters and marks compose") {
  CHECK(normalize_nfc("e\u0301") == "\u00E9");
  CHECK(normalize_nfc("\u00E9") == "\u00E9");
  CHECK(normalize_nfc("\u0041\u030A") == "\u00C5");
  CHECK(normalize_nfc("\u212B") == "\u00C5");                // the Angstrom sign
  CHECK(normalize_nfc("a\u0323\u0302") == "\u1EAD");         // two steps
  CHECK(normalize_nfc("a\u0302\u0323") == "\u1EAD");         // marks are put in order first
  CHECK(normalize_nfc("q\u0307\u0323") == "q\u0323\u0307");  // ordered though nothing composes
  CHECK(normalize_nfc("a\u0300\u0301") == "\u00E0\u0301");
  CHECK(normalize_nfc("a\u0305\u0301") == "a\u0305\u0301");  // blocked by a mark of its class
  CHECK(normalize_nfc("\u0958") == "\u0915\u093C");          // excluded from composition
  CHECK(normalize_nfc("\uFB01") == "\uFB01");                // a ligature is another matter
  CHECK(normalize_nfc("\uF900") == "\u8C48");
  CHECK(normalize_nfc("") == "");
}

TEST_CASE("Hangul composes by its formula") {
  CHECK(normalize_nfc("\u1112\u1161\u11AB") == "\uD55C");
  CHECK(normalize_nfc("\u1112\u1161") == "\uD558");
  CHECK(normalize_nfc("\uD558\u11AB") == "\uD55C");
  CHECK(normalize_nfc("\uD55C") == "\uD55C");
  CHECK(normalize_nfc("\uD55C\u11AB") == "\uD55C\u11AB");
  CHECK(normalize_nfc("\u1112\u11A7") == "\u1112\u11A7");
}

TEST_CASE("bytes that are not UTF-8 stay and separate") {
  CHECK(normalize_nfc("e\xFF\u0301") == "e\xFF\u0301");
  CHECK(normalize_nfc("e\u0301\xC3") == "\u00E9\xC3");
  std::mt19937 random(23);
  for (int round = 0; round < 300; ++round) {
    const std::string bytes = test::random_bytes(random, 40);
    CHECK(normalize_nfc(normalize_nfc(bytes)) == normalize_nfc(bytes));
  }
}

TEST_CASE("text and its decomposition have the same form C") {
  for (const Decomposition& row : decompositions()) {
    std::string parts = utf8(row.first);
    if (row.second != 0) parts += utf8(row.second);
    const std::string text = "x" + utf8(row.composed) + "y\u0323";
    REQUIRE(normalize_nfc(text) == normalize_nfc("x" + parts + "y\u0323"));
  }
}

TEST_CASE("form C is stable and the quick check is right") {
  std::mt19937 random(29);
  for (int round = 0; round < 2000; ++round) {
    std::string text = test::random_text(random, 8);
    for (int marks = 0; marks < 4; ++marks) {
      text += utf8(0x300 + static_cast<std::uint32_t>(random() % 0x70));
      text += static_cast<char>('a' + random() % 26);
    }
    const std::string normal = normalize_nfc(text);
    REQUIRE(normalize_nfc(normal) == normal);
  }
  for (std::uint32_t c = 0; c < 0x110000; c += 1) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    const std::string text = "a" + utf8(c);
    if (!may_need_nfc(text)) REQUIRE(normalize_nfc(text) == text);
  }
}

}  // namespace
}  // namespace sluice
