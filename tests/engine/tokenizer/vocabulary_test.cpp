// Roles of tokens, and vocabularies that contradict themselves.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/engine/tokenizer/small_vocabularies.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice {
namespace {

using Catch::Contains;
using test::BpeVocabulary;
using test::tokenizer_of;
using Ids = std::vector<TokenId>;

Ids end_tokens(const test::GgufWriter& writer) {
  const auto tokenizer = tokenizer_of(writer);
  return {tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()};
}

TEST_CASE("tokens that end a turn are collected from keys and texts") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId im_end = v.add("<|im_end|>", 3);
  const TokenId eot = v.add("<|eot_id|>", 3);
  const TokenId other = v.add("<|other|>", 3);
  v.add("<end_of_turn>", 1);  // an ordinary token of that text is no mark
  const TokenId added = v.add("<end_of_turn>", 4);
  v.add("</s>", 4);  // may be markup
  const TokenId wide = v.add(
      "<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>",
      3);
  CHECK(end_tokens(v.writer()) == Ids{im_end, eot, added, wide});
  test::GgufWriter writer = v.writer();
  writer.add_u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(other));
  writer.add_u32("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(eot));
  writer.add_u32("tokenizer.ggml.eom_token_id", 'm');
  CHECK(end_tokens(writer) == Ids{'m', im_end, eot, other, added, wide});
}

TEST_CASE("in the harmony format the end of a part ends nothing") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId end = v.add("<|end|>", 3);
  CHECK(end_tokens(v.writer()) == Ids{end});
  const TokenId returned = v.add("<|return|>", 3);
  const TokenId call = v.add("<|call|>", 3);
  CHECK(end_tokens(v.writer()) == Ids{returned, call});
}

TEST_CASE("ids with a role must be tokens") {
  const BpeVocabulary v = BpeVocabulary::of_bytes();
  for (const char* key : {"bos", "eos", "eot", "eom", "unknown"}) {
    test::GgufWriter writer = v.writer();
    writer.add_u32("tokenizer.ggml." + std::string(key) + "_token_id", 5000);
    CHECK_THROWS_WITH(tokenizer_of(writer), Contains(key) && Contains("5000"));
  }
  test::GgufWriter none = v.writer();
  none.add_u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFFU);
  none.add_i32("tokenizer.ggml.bos_token_id", -1);
  CHECK(tokenizer_of(none)->bos() == -1);
  CHECK(end_tokens(none).empty());
}

TEST_CASE("token types must fit the tokens") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  v.kinds.pop_back();
  CHECK_THROWS_WITH(tokenizer_of(v.writer()), Contains("255 entries for 256 tokens"));
  v.kinds.push_back(7);
  CHECK_THROWS_WITH(tokenizer_of(v.writer()), Contains("unknown type 7"));
}

TEST_CASE("ids outside the vocabulary are harmless") {
  const auto tokenizer = tokenizer_of(BpeVocabulary::of_bytes().writer());
  for (const TokenId id : {-1, 256, 1 << 30}) {
    CHECK(tokenizer->token_bytes(id).empty());
    CHECK_FALSE(tokenizer->is_special(id));
  }
  CHECK(tokenizer->decode(Ids{-1, 'a', 300}, true) == "a");
  CHECK(tokenizer->vocab_size() == 256);
  CHECK(tokenizer->description() == "byte-level BPE, gpt-2 splitting, 256 tokens");
}

TEST_CASE("the bundled model ends its turns and knows its marks") {
  const auto dir = test::shared_dir("models/demo");
  if (!dir) return;
  const auto tokenizer = make_tokenizer(*open_model(*dir / "demo-q8_0.gguf"));
  CHECK(tokenizer->find_special("<|im_end|>") == 2);
  CHECK(Ids(tokenizer->end_tokens().begin(), tokenizer->end_tokens().end()) == Ids{0, 2});
  CHECK(tokenizer->encode("<|im_end|>", {.parse_special = true}) == Ids{2});
  CHECK(tokenizer->encode("<|im_end|>", {}).size() > 1);
}

TEST_CASE("vocabularies of damaged reference files are refused") {
  const auto dir = test::shared_dir("reference/broken");
  if (!dir) return;
  for (const char* file :
       {"missing-tokens.gguf", "token-type-short.gguf", "eos-out-of-range.gguf"}) {
    INFO(file);
    CHECK_THROWS_AS(make_tokenizer(*open_model(*dir / file)), Error);
  }
}

}  // namespace
}  // namespace sluice
