// Unigram models in GGUF files: the best sum of scores, unknown text, and the treatment of spaces.
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/unigram_model.hpp"
#include "tests/engine/tokenizer/small_vocabularies.hpp"

namespace sluice {
namespace {

using test::tokenizer_of;
using Ids = std::vector<TokenId>;

const std::string kMark = "\xE2\x96\x81";

test::GgufWriter writer() {
  test::GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", "t5");
  writer.add_strings("tokenizer.ggml.tokens", {"<unk>", "</s>", kMark, "a", "b", kMark + "ab"});
  writer.add_i32s("tokenizer.ggml.token_type", {2, 3, 1, 1, 1, 1});
  writer.add_f32s("tokenizer.ggml.scores", {0.0F, 0.0F, -2.0F, -2.5F, -3.0F, -4.0F});
  writer.add_u32("tokenizer.ggml.unknown_token_id", 0);
  writer.add_u32("tokenizer.ggml.eos_token_id", 1);
  return writer;
}

TEST_CASE("spaces are folded and one is put in front") {
  const auto tokenizer = tokenizer_of(writer());
  CHECK(tokenizer->encode("ab", {}) == Ids{5});
  CHECK(tokenizer->encode("  ab   ab  ", {}) == Ids{5, 5});
  CHECK(tokenizer->encode("ba", {}) == Ids{2, 4, 3});
  CHECK(tokenizer->decode(Ids{5, 5}, false) == "ab ab");
  CHECK(tokenizer->encode("", {}).empty());
}

TEST_CASE("a model may keep its spaces or have them behind") {
  test::GgufWriter keeps = writer();
  keeps.add_bool("tokenizer.ggml.remove_extra_whitespaces", false);
  CHECK(tokenizer_of(keeps)->encode(" ab ", {}) == Ids{2, 5, 2});
  test::GgufWriter behind = writer();
  behind.add_bool("tokenizer.ggml.treat_whitespace_as_suffix", true);
  CHECK(tokenizer_of(behind)->encode("ab", {}) == Ids{3, 4, 2});
}

TEST_CASE("a run without tokens is one unknown") {
  const auto tokenizer = tokenizer_of(writer());
  CHECK(tokenizer->encode("axyb\xF0\x9F\x98\x80", {}) == Ids{2, 3, 0, 4, 0});
  CHECK(tokenizer->encode("\xFF", {}) == Ids{2, 0});
}

/// The best sum over every way to cut a text.
double best_sum(const std::vector<std::string>& texts, const std::vector<double>& scores,
                std::string_view text) {
  if (text.empty()) return 0.0;
  double best = -1e9;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!text.starts_with(texts[i])) continue;
    best = std::max(best, scores[i] + best_sum(texts, scores, text.substr(texts[i].size())));
  }
  return best;
}

TEST_CASE("no way to cut a text has a better sum") {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> texts = {"a", "b"};
    for (int i = 0; i < 8; ++i) {
      std::string text;
      for (std::size_t size = 2 + random() % 3; size > 0; --size) text += "ab"[random() % 2];
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
    Vocabulary vocabulary;
    std::vector<double> scores;
    for (const std::string& text : texts) {
      vocabulary.entries.push_back({text, TokenKind::kNormal});
      scores.push_back(-0.25 * static_cast<double>(random() % 40));
    }
    const auto model = make_unigram_model(texts, vocabulary, {.scores = scores});
    std::string text;
    for (std::size_t size = 1 + random() % 9; size > 0; --size) text += "ab"[random() % 2];
    const std::string_view piece = text;
    Ids ids;
    model->encode({&piece, 1}, ids);
    std::string joined;
    double sum = 0.0;
    for (const TokenId id : ids) {
      joined += texts[static_cast<std::size_t>(id)];
      sum += scores[static_cast<std::size_t>(id)];
    }
    CHECK(joined == text);
    CHECK(sum == best_sum(texts, scores, text));  // quarters add up exactly
  }
}

}  // namespace
}  // namespace sluice
