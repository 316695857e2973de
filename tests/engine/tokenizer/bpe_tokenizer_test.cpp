// Byte-level BPE: merges, special tokens, and properties that hold for any text.
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/tokenizer/byte_pair_merger.hpp"
#include "engine/tokenizer/nfc.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "tests/engine/tokenizer/small_vocabularies.hpp"

namespace sluice {
namespace {

using Catch::Contains;
using test::BpeVocabulary;
using test::tokenizer_of;
using Ids = std::vector<TokenId>;

TEST_CASE("lower ranks merge first and the leftmost among equals") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId bc = v.add_merge("b", "c");
  const TokenId ab = v.add_merge("a", "b");
  const TokenId aa = v.add_merge("a", "a");
  const TokenId abc = v.add_merge("ab", "c");
  const auto tokenizer = tokenizer_of(v.writer());
  CHECK(tokenizer->encode("abc", {}) == Ids{'a', bc});  // b c ranks before a b
  CHECK(tokenizer->encode("ab", {}) == Ids{ab});
  CHECK(tokenizer->encode("aaa", {}) == Ids{aa, 'a'});
  CHECK(tokenizer->encode("aaab", {}) == Ids{aa, ab});
  CHECK(tokenizer->encode("", {}).empty());
  CHECK(tokenizer->token_bytes(abc) == "abc");
}

TEST_CASE("a merge never crosses a split") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId joined = v.add_merge("a", test::stand_in(' '));
  const auto tokenizer = tokenizer_of(v.writer());
  CHECK(tokenizer->encode("a b", {}) == Ids{'a', ' ', 'b'});
  CHECK(tokenizer->token_bytes(joined) == "a ");
}

TEST_CASE("special tokens come from text only when asked for") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId end = v.add("<|end|>", 3);
  const TokenId longer = v.add("<|end|>!", 3);
  const TokenId word = v.add("<think>", 4);
  const auto tokenizer = tokenizer_of(v.writer());
  const std::string text = "<|end|>";
  CHECK(tokenizer->encode(text, {}) == Ids{'<', '|', 'e', 'n', 'd', '|', '>'});
  CHECK(tokenizer->encode(text, {.parse_special = true}) == Ids{end});
  CHECK(tokenizer->encode("a<|end|>!b", {.parse_special = true}) == Ids{'a', longer, 'b'});
  CHECK(tokenizer->encode("a<think>b", {}) == Ids{'a', word, 'b'});
  CHECK(tokenizer->find_special("<|end|>") == end);
  CHECK(tokenizer->find_special("<|nothing|>") == -1);
  CHECK(tokenizer->find_special("a") == -1);
  CHECK(tokenizer->is_special(end));
  CHECK_FALSE(tokenizer->is_special(word));
  CHECK_FALSE(tokenizer->is_special('a'));
  CHECK(tokenizer->token_bytes(end) == "<|end|>");
  CHECK(tokenizer->decode(Ids{'a', end, 'b'}, true) == "ab");
  CHECK(tokenizer->decode(Ids{'a', end, 'b'}, false) == "a<|end|>b");
}

TEST_CASE("literal ranges keep special text plain") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId x = v.add("<x>", 3);
  const TokenId word = v.add("<w>", 4);
  const auto tokenizer = tokenizer_of(v.writer());
  const auto encode = [&](std::string_view text, std::vector<TextRange> literal) {
    return tokenizer->encode(text, {.parse_special = true, .literal = literal});
  };
  const Ids plain = {'<', 'x', '>'};
  CHECK(encode("<x>", {}) == Ids{x});
  CHECK(encode("<x>", {{0, 3}}) == plain);
  CHECK(encode("<x>", {{2, 3}}) == plain);  // a mark half typed by a user is no mark
  CHECK(encode("<x>", {{0, 1}}) == plain);
  CHECK(encode("<x>", {{1, 1}}) == Ids{x});
  CHECK(encode("<x><x><x>", {{3, 6}}) == Ids{x, '<', 'x', '>', x});
  CHECK(encode("<x>a<x>", {{3, 4}}) == Ids{x, 'a', x});
  CHECK(encode("<w>", {{0, 3}}) == Ids{word});  // added words are words for users too
}

TEST_CASE("merges never lead plain text to a control token") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  v.merges.push_back("a b");
  const TokenId ab = v.add("ab", 3);
  v.pre = "llama-bpe";  // takes whole pieces that are tokens
  const auto tokenizer = tokenizer_of(v.writer());
  CHECK(tokenizer->encode("ab", {}) == Ids{'a', 'b'});
  CHECK(tokenizer->encode("ab", {.parse_special = true}) == Ids{ab});
}

TEST_CASE("some families take a piece that is a token without merging") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId abc = v.add("abc");  // no merge leads here
  CHECK(tokenizer_of(v.writer())->encode("abc", {}) == Ids{'a', 'b', 'c'});
  v.pre = "llama-bpe";
  CHECK(tokenizer_of(v.writer())->encode("abc", {}) == Ids{abc});
}

TEST_CASE("a merge through a text that is no token falls back to bytes") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  v.merges = {"a b", "ab c"};
  const TokenId abc = v.add("abc");
  const auto tokenizer = tokenizer_of(v.writer());
  CHECK(tokenizer->encode("abc", {}) == Ids{abc});
  CHECK(tokenizer->encode("ab", {}) == Ids{'a', 'b'});
}

TEST_CASE("start and end tokens follow the model") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  const TokenId start = v.add("<s>", 3);
  const TokenId end = v.add("</s>", 3);
  const auto with = [&](auto change, const std::string& pre = "gpt-2") {
    v.pre = pre;
    test::GgufWriter writer = v.writer();
    writer.add_u32("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(start));
    writer.add_u32("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(end));
    change(writer);
    return tokenizer_of(writer)->encode("a", {.add_special = true});
  };
  CHECK(with([](auto&) {}) == Ids{'a'});
  CHECK(with([](auto&) {}, "llama-bpe") == Ids{start, 'a'});
  CHECK(with([](auto& w) { w.add_bool("tokenizer.ggml.add_bos_token", false); }, "llama-bpe") ==
        Ids{'a'});
  CHECK(with([](auto& w) {
          w.add_bool("tokenizer.ggml.add_bos_token", true);
          w.add_bool("tokenizer.ggml.add_eos_token", true);
        }) == Ids{start, 'a', end});
}

TEST_CASE("faulty or unknown tokenizers are refused") {
  const auto refusal = [](const test::GgufWriter& writer) -> std::string {
    try {
      tokenizer_of(writer);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(refusal({}), Contains("no tokenizer"));
  test::GgufWriter kind;
  kind.add_string("tokenizer.ggml.model", "rwkv");
  CHECK_THAT(refusal(kind), Contains("'rwkv'") && Contains("gpt2"));
  BpeVocabulary v = BpeVocabulary::of_bytes();
  v.pre = "quux";
  CHECK_THAT(refusal(v.writer()), Contains("'quux'") && Contains("llama-bpe"));
  test::GgufWriter bare;
  bare.add_string("tokenizer.ggml.model", "gpt2");
  CHECK_THAT(refusal(bare), Contains("no tokens"));
  bare.add_strings("tokenizer.ggml.tokens", {"a"});
  CHECK_THAT(refusal(bare), Contains("no merges"));
}

TEST_CASE("encode then decode gives back any text") {
  BpeVocabulary v = BpeVocabulary::of_bytes();
  v.add_merge("a", "b");
  v.add_merge(test::stand_in(' '), "a");
  v.add_merge(test::stand_in(0xE4), test::stand_in(0xB8));
  v.add_merge("0", "7");
  v.add("<|", 4);
  std::mt19937 random(11);
  for (const std::string pre :
       {"default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "starcoder", "falcon", "deepseek-llm",
        "deepseek-coder", "deepseek-v3", "tekken", "gpt-4o", "bloom", "viking", "superbpe",
        "bailingmoe", "seed-coder", "chameleon"}) {
    v.pre = pre;
    const auto tokenizer = tokenizer_of(v.writer());
    for (int round = 0; round < 60; ++round) {
      const std::string text = round % 2 == 0 ? test::random_text(random, random() % 80)
                                              : test::random_bytes(random, random() % 80);
      const Ids ids = tokenizer->encode(text, {});
      INFO(pre);
      // Qwen's rules bring text to Unicode form C first.
      const bool normalizes = find_pre_tokenizer(pre)->normalize_nfc;
      REQUIRE(tokenizer->decode(ids, false) == (normalizes ? normalize_nfc(text) : text));
    }
  }
}

/// Byte-pair encoding as its definition reads: find the best pair, merge it, start again.
std::vector<SymbolId> merge_naively(std::vector<SymbolId> symbols, const MergeTable& table) {
  while (true) {
    std::size_t best = symbols.size();
    std::int32_t best_rank = MergeTable::kNoRank;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const std::int32_t rank = table.find(symbols[i], symbols[i + 1]).rank;
      if (rank < best_rank) {
        best_rank = rank;
        best = i;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = table.find(symbols[best], symbols[best + 1]).result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST_CASE("scan and heap merge as the definition says") {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const auto num_merges = static_cast<std::int32_t>(1 + random() % 40);
    MergeTable table(static_cast<std::size_t>(num_merges));
    for (std::int32_t rank = 0; rank < num_merges; ++rank) {
      const auto limit = static_cast<std::uint32_t>(4 + rank);
      table.add(static_cast<SymbolId>(random() % limit), static_cast<SymbolId>(random() % limit),
                {rank, 4 + rank});
    }
    std::vector<SymbolId> symbols(random() % 60);
    for (SymbolId& symbol : symbols) symbol = static_cast<SymbolId>(random() % 4);
    const std::vector<SymbolId> expected = merge_naively(symbols, table);
    BytePairMerger merger(table);
    std::vector<SymbolId> scanned = symbols;
    merger.merge_by_scan(scanned);
    CHECK(scanned == expected);
    std::vector<SymbolId> heaped = symbols;
    merger.merge_by_heap(heaped);
    CHECK(heaped == expected);
  }
}

TEST_CASE("a megabyte of one letter or of spaces is encoded") {
  // Anything quadratic would take hours here.
  BpeVocabulary v = BpeVocabulary::of_bytes();
  std::string run = "a";
  for (int i = 0; i < 5; ++i) {
    v.add_merge(run, run);
    run += run;
  }
  constexpr std::size_t kMegabyte = 1 << 20;
  for (const std::string pre : {"gpt-2", "llama-bpe", "default"}) {
    v.pre = pre;
    const auto tokenizer = tokenizer_of(v.writer());
    CHECK(tokenizer->encode(std::string(kMegabyte, 'a'), {}).size() == kMegabyte / 32);
    CHECK(tokenizer->encode(std::string(kMegabyte, ' ') + "a", {}).size() == kMegabyte + 1);
    CHECK(tokenizer->encode(std::string(kMegabyte, '!'), {}).size() == kMegabyte);
    CHECK(tokenizer->encode(std::string(kMegabyte, '\xFF'), {}).size() == kMegabyte);
  }
}

}  // namespace
}  // namespace sluice
