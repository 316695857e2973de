// Where text is cut before merging.
#include "engine/tokenizer/pre_tokenizer.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/engine/tokenizer/small_vocabularies.hpp"

namespace sluice {
namespace {

std::vector<std::string> split(const std::string& pre, std::string_view text) {
  const PreTokenizerRules* rules = find_pre_tokenizer(pre);
  REQUIRE(rules != nullptr);
  std::vector<std::string_view> views;
  PreTokenizer(rules->patterns).split(text, views);
  return {views.begin(), views.end()};
}

using Pieces = std::vector<std::string>;

TEST_CASE("families cut words and digits and spaces their own way") {
  const std::string text = "It's  12345 dogs!\n\nI'M OK";
  CHECK(split("gpt-2", text) ==
        Pieces{"It", "'s", " ", " 12345", " dogs", "!", "\n", "\n", "I", "'", "M", " OK"});
  CHECK(split("llama-bpe", text) ==
        Pieces{"It", "'s", " ", " ", "123", "45", " dogs", "!\n\n", "I", "'M", " OK"});
  CHECK(split("qwen2", text) ==
        Pieces{"It", "'s", " ", " ", "1", "2", "3", "4", "5", " dogs", "!\n\n", "I", "'M", " OK"});
  CHECK(split("starcoder", text) == Pieces{"It", "'s", "  ", "1", "2", "3", "4", "5", " dogs", "!",
                                           "\n", "\n", "I", "'", "M", " OK"});
  CHECK(split("superbpe", "n 1234567").back() == "567");
}

TEST_CASE("capitals cut words in the newer families") {
  CHECK(split("tekken", "HelloWorld HTTPServer2 it's") ==
        Pieces{"Hello", "World", " HTTPServer", "2", " it", "'s"});
  CHECK(split("gpt-4o", "HelloWorld it's 1234") ==
        Pieces{"Hello", "World", " it's", " ", "123", "4"});
}

TEST_CASE("white space is that of Unicode") {
  CHECK(split("gpt-2", "\xC2\xA0\xC2\x85") == Pieces{"\xC2\xA0\xC2\x85"});
  // U+180E is no white space any more; it belongs to no letters or digits either.
  CHECK(split("gpt-2", " \xE1\xA0\x8E!") == Pieces{" \xE1\xA0\x8E!"});
}

TEST_CASE("bytes that are not UTF-8 stand alone") {
  CHECK(split("gpt-2",
              "ab\xFF\xC3"
              "cd") == Pieces{"ab", "\xFF", "\xC3", "cd"});
  CHECK(split("gpt-2", "\xED\xA0\x80") == Pieces{"\xED", "\xA0", "\x80"});
}

TEST_CASE("every name is known and its pieces cover the text") {
  CHECK(find_pre_tokenizer("quux") == nullptr);
  CHECK(find_pre_tokenizer("") == nullptr);
  std::mt19937 random(3);
  std::string names = known_pre_tokenizers() + ", ";
  std::size_t count = 0;
  for (std::size_t end = 0; (end = names.find(", ")) != std::string::npos; ++count) {
    const std::string name = names.substr(0, end);
    names.erase(0, end + 2);
    for (int round = 0; round < 10; ++round) {
      const std::string text = test::random_text(random, 50);
      std::string joined;
      for (const std::string& piece : split(name, text)) {
        REQUIRE_FALSE(piece.empty());
        joined += piece;
      }
      INFO(name);
      REQUIRE(joined == text);
    }
  }
  CHECK(count > 40);
}

}  // namespace
}  // namespace sluice
