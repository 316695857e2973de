// SentencePiece BPE: scores, byte fallback, the space in front.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/engine/tokenizer/small_vocabularies.hpp"

namespace sluice {
namespace {

using Catch::Contains;
using test::tokenizer_of;
using Ids = std::vector<TokenId>;

/// <unk> 0, <s> 1, </s> 2, then pieces with scores, then byte tokens.
struct SpmVocabulary {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> kinds = {2, 3, 3};
  std::vector<float> scores = {0, 0, 0};

  TokenId add(const std::string& token, float score, std::int32_t kind = 1) {
    tokens.push_back(token);
    kinds.push_back(kind);
    scores.push_back(score);
    return static_cast<TokenId>(tokens.size() - 1);
  }
  TokenId add_bytes() {
    static const char* digits = "0123456789ABCDEF";
    TokenId first = -1;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const TokenId id =
          add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0, 6);
      if (first < 0) first = id;
    }
    return first;
  }
  test::GgufWriter writer() const {
    test::GgufWriter writer;
    writer.add_string("tokenizer.ggml.model", "llama");
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    writer.add_i32s("tokenizer.ggml.token_type", kinds);
    writer.add_f32s("tokenizer.ggml.scores", scores);
    writer.add_u32("tokenizer.ggml.unknown_token_id", 0);
    writer.add_u32("tokenizer.ggml.bos_token_id", 1);
    writer.add_u32("tokenizer.ggml.eos_token_id", 2);
    return writer;
  }
};

const std::string kMark = "\xE2\x96\x81";

TEST_CASE("the best score merges first") {
  SpmVocabulary v;
  const TokenId space = v.add(kMark, -1);
  const TokenId a = v.add("a", -2);
  const TokenId b = v.add("b", -3);
  v.add("c", -4);
  const TokenId ab = v.add("ab", -6);
  const TokenId bc = v.add("bc", -5);
  const TokenId space_a = v.add(kMark + "a", -7);
  const auto tokenizer = tokenizer_of(v.writer());
  CHECK(tokenizer->encode("ab", {}) == Ids{space, ab});
  CHECK(tokenizer->encode("abc", {}) == Ids{space_a, bc});
  CHECK(tokenizer->encode("a b", {}) == Ids{space_a, space, b});
  CHECK(tokenizer->encode("", {}).empty());
  CHECK(tokenizer->encode("", {.add_special = true}) == Ids{1});
  CHECK(tokenizer->encode("a", {.add_special = true}) == Ids{1, space_a});
  CHECK(tokenizer->decode(Ids{1, space_a, space, b}, true) == "a b");
  CHECK(tokenizer->token_bytes(space_a) == " a");
  CHECK(tokenizer->token_bytes(a) == "a");
}

TEST_CASE("the space in front can be switched off") {
  SpmVocabulary v;
  v.add(kMark, -1);
  const TokenId a = v.add("a", -2);
  test::GgufWriter writer = v.writer();
  writer.add_bool("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = tokenizer_of(writer);
  CHECK(tokenizer->encode("a", {}) == Ids{a});
  CHECK(tokenizer->decode(tokenizer->encode(" a", {}), true) == " a");
}

TEST_CASE("text without a token becomes bytes or the unknown token") {
  SpmVocabulary v;
  const TokenId space = v.add(kMark, -1);
  const auto without = tokenizer_of(v.writer());
  CHECK(without->encode("\xC3\xA9", {}) == Ids{space, 0, 0});
  const TokenId first = v.add_bytes();
  const auto with = tokenizer_of(v.writer());
  CHECK(with->encode("\xC3\xA9", {}) == Ids{space, first + 0xC3, first + 0xA9});
  CHECK(with->token_bytes(first + 0xC3) == "\xC3");
}

TEST_CASE("plain text never becomes a control or byte token") {
  SpmVocabulary v;
  v.add(kMark, -1);
  for (const char c : {'<', 's', '>', '/', '0', 'x', 'A'}) v.add(std::string(1, c), -2);
  v.add("<s", -1);  // a merge that would lead to the text of the start token
  v.add_bytes();
  const auto tokenizer = tokenizer_of(v.writer());
  for (const std::string text : {"<s>", "</s>", "<0x0A>"}) {
    for (const TokenId id : tokenizer->encode(text, {})) {
      CHECK_FALSE(tokenizer->is_special(id));
      CHECK(tokenizer->token_bytes(id).find('\n') == std::string::npos);
    }
    CHECK(tokenizer->decode(tokenizer->encode(text, {}), true) == text);
  }
  CHECK(tokenizer->encode("<s>", {.parse_special = true}) == Ids{1});
}

TEST_CASE("any bytes survive encode and decode with byte tokens") {
  SpmVocabulary v;
  v.add(kMark, -1);
  v.add(kMark + "a", -2);
  v.add("a", -3);
  v.add("aa", -4);
  v.add("\xC3\xA9", -5);
  v.add_bytes();
  const auto tokenizer = tokenizer_of(v.writer());
  std::mt19937 random(17);
  for (int round = 0; round < 500; ++round) {
    std::string text = round % 2 == 0 ? test::random_text(random, random() % 40)
                                      : test::random_bytes(random, random() % 40);
    // The mark itself reads as a space: the one thing that does not come back.
    for (std::size_t at = 0; (at = text.find(kMark)) != std::string::npos;) {
      text.replace(at, kMark.size(), " ");
    }
    CHECK(tokenizer->decode(tokenizer->encode(text, {}), true) == text);
  }
}

TEST_CASE("a megabyte of one letter is encoded by scores") {
  SpmVocabulary v;
  v.add(kMark, -1);
  v.add("a", -2);
  v.add("aa", -3);
  v.add("aaaa", -4);
  const auto tokenizer = tokenizer_of(v.writer());
  constexpr std::size_t kMegabyte = 1 << 20;
  CHECK(tokenizer->encode(std::string(kMegabyte, 'a'), {}).size() == 1 + kMegabyte / 4);
}

TEST_CASE("scores that do not fit are refused") {
  SpmVocabulary v;
  v.scores.pop_back();
  CHECK_THROWS_WITH(tokenizer_of(v.writer()), Contains("tokenizer.ggml.scores has 2"));
}

}  // namespace
}  // namespace sluice
