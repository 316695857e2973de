// Patterns of other dialects, Unicode forms, and SentencePiece's table of rewritings.
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/tokenizer/char_map.hpp"
#include "engine/tokenizer/regex.hpp"
#include "engine/tokenizer/regex_dialect.hpp"
#include "engine/tokenizer/unicode_form.hpp"

namespace sluice {
namespace {

/// All matches, with bars between.
std::string matches(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, RegexDialect::kOniguruma);
  Regex::Scratch scratch;
  std::string out;
  for (std::size_t from = 0; from < text.size();) {
    const auto match = regex.find(text, from, scratch);
    if (!match) break;
    out += (out.empty() ? "" : "|") + text.substr(match->begin, match->end - match->begin);
    from = match->end + (match->end == match->begin ? 1 : 0);
  }
  return out;
}

TEST_CASE("sets in sets and intersections are understood") {
  CHECK(matches("[a[c-e]]+", "abcde") == "a|cde");
  CHECK(matches(R"([\p{L}&&[^b]]+)", "abc1de") == "a|c|de");
  CHECK(matches(R"([a-z&&[^aeiou]&&[^x-z]]+)", "banxcd") == "b|n|cd");
  CHECK(matches(R"([\p{L}&&[^\p{Han}]]+)", "ab\u4E2Dcd") == "ab|cd");
  CHECK(matches(R"([^[ab]c]+)", "abxyc") == "xy");
  CHECK(matches(R"([^a-z&&[^aeiou]]+)", "1be2") == "1|e2");
  CHECK(matches(R"([a[^b-z]]+)", "1ab2") == "1a|2");
  CHECK(matches(R"([]a]+)", "]ab") == "]a");
  CHECK(matches(R"([[:digit:]x]+)", "12xa3") == "12x|3");
  CHECK(matches(R"(\h+)", "xfF09g") == "fF09");
  CHECK(matches(R"(\w+)", "a_1\u00BD b\u0301!") == "a_1\u00BD|b\u0301");
  CHECK(matches("^b|c$", "a\nb c\nd") == "b|c");
  CHECK(translate_pattern("[a&&b]", false) == "[a&&b]");
}

TEST_CASE("patterns that are not closed are refused") {
  for (const char* pattern : {"[", "[a", "[a&&", "[[a]", "(", "[a\\"}) {
    CHECK_THROWS_AS(Regex(pattern, RegexDialect::kOniguruma), Error);
  }
}

TEST_CASE("a pattern that never ends its search gives up") {
  const Regex regex("(a*)*(b*)*(a+)+c", RegexDialect::kOniguruma);
  Regex::Scratch scratch;
  CHECK_FALSE(regex.find(std::string(3000, 'a'), 0, scratch));
}

TEST_CASE("decomposed and compatible forms") {
  CHECK(normalize_unicode("\u00E9", UnicodeForm::kD) == "e\u0301");
  CHECK(normalize_unicode("\u1EAD", UnicodeForm::kD) == "a\u0323\u0302");
  CHECK(normalize_unicode("\uD55C", UnicodeForm::kD) == "\u1112\u1161\u11AB");
  CHECK(normalize_unicode("\uFB01\u00BD\uFF21", UnicodeForm::kC) == "\uFB01\u00BD\uFF21");
  CHECK(normalize_unicode("\uFB01\u00BD\uFF21", UnicodeForm::kKc) == "fi1\u20442A");
  CHECK(normalize_unicode("\u1E9B\u0323", UnicodeForm::kKc) == "\u1E69");
  CHECK(normalize_unicode("\u1E9B\u0323", UnicodeForm::kKd) == "s\u0323\u0307");
  CHECK(normalize_unicode("\uFDFA", UnicodeForm::kKd).size() == 33);  // the longest of all
  CHECK(normalize_unicode("\xFF"
                          "e\u0301",
                          UnicodeForm::kC) == "\xFF\u00E9");
}

TEST_CASE("lower case of single code points") {
  CHECK(lower_case("ABC \u00C9 \u0391\u03A3 \u1E9E \xFF") == "abc \u00E9 \u03B1\u03C3 \u00DF \xFF");
  CHECK(lower_case("\u0130") == "i\u0307");
}

/// Writes a double array as Darts does, for a few keys: each node's children lie at offset xor
/// label, a leaf at offset xor 0.
std::string char_map(const std::map<std::string, std::string>& entries) {
  std::string replacements;
  std::vector<std::uint32_t> units(256, 0);
  const auto place = [&](auto self, std::size_t node, const std::string& prefix) -> void {
    // A block of its own for the children of each node.
    const auto block = static_cast<std::uint32_t>(units.size());
    units.resize(units.size() + 256, 0);
    units[node] |= (block ^ static_cast<std::uint32_t>(node)) << 10;
    if (const auto entry = entries.find(prefix); entry != entries.end() && !prefix.empty()) {
      units[node] |= 0x100;
      units[block] = 0x80000000U | static_cast<std::uint32_t>(replacements.size());
      replacements += entry->second + '\0';
    }
    for (unsigned label = 1; label < 256; ++label) {
      const std::string longer = prefix + static_cast<char>(label);
      const auto next = entries.lower_bound(longer);
      if (next == entries.end() || !next->first.starts_with(longer)) continue;
      units[block ^ label] = label;
      self(self, block ^ label, longer);
    }
  };
  place(place, 0, "");
  std::string bytes;
  const auto put = [&](std::uint32_t unit) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(unit >> (8 * i) & 0xFF);
  };
  put(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) put(unit);
  return bytes + replacements;
}

TEST_CASE("the table of rewritings finds its shortest and longest entries") {
  const CharMap map(char_map({{"a", "1"}, {"abc", "2"}, {"\u00A0", " "}, {"x", ""}}));
  CHECK(map.longest("abcd").size == 3);
  CHECK(map.longest("abcd").replacement == "2");
  CHECK(map.shortest("abcd").size == 1);
  CHECK(map.shortest("abcd").replacement == "1");
  CHECK(map.longest("abx").size == 1);
  CHECK(map.longest("\u00A0").replacement == " ");
  CHECK(map.longest("x").size == 1);
  CHECK(map.longest("x").replacement.empty());
  CHECK(map.longest("b").size == 0);
  CHECK(map.longest("").size == 0);
}

TEST_CASE("tables of rewritings that lie about their sizes are refused or harmless") {
  CHECK_THROWS_AS(CharMap(""), Error);
  CHECK_THROWS_AS(CharMap(std::string("\x10\0\0\0abcd", 8)), Error);
  const std::string good = char_map({{"a", "1"}});
  for (std::size_t i = 0; i < 64; ++i) {
    std::string bad = good;
    bad[4 + 97 * i % (bad.size() - 4)] = static_cast<char>(0xFF);
    const CharMap map(bad);
    for (const char* text : {"a", "ab", "\xFF\xFF"}) map.longest(text);
  }
}

}  // namespace
}  // namespace sluice
