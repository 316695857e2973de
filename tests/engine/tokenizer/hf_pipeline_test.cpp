// Small tokenizer.json files with every kind of step, against what their own library makes of them.
//
// pipelines.jsonl holds one file a line ("file"), texts with their ids ("encode", special tokens
// parsed, "special" adds those around the text) and ids with their text ("decode", "skip" leaves
// out special tokens). The ids and texts were written by the library that defines the format
// (tokenizers 0.23.2).
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "engine/tokenizer/hf_tokenizer.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "tests/support/paths.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

std::vector<TokenId> ids_of(element test) {
  std::vector<TokenId> ids;
  for (const element id : test["ids"].get_array()) {
    ids.push_back(static_cast<TokenId>(id.get_int64().value()));
  }
  return ids;
}

TEST_CASE("small files with every kind of step give the ids and texts of their library") {
  std::ifstream lines(test::source_dir() / "tests/engine/tokenizer/pipelines.jsonl");
  simdjson::dom::parser parser;
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const element test = parser.parse(line);
    const std::string file = simdjson::minify(test["file"].value());
    const auto tokenizer = parse_hf_tokenizer(file, "line " + std::to_string(count + 1));
    INFO("line " << count + 1 << ": " << tokenizer->description());
    for (const element one : test["encode"].get_array()) {
      const std::string text(one["text"].get_string().value());
      INFO("text: " << text);
      CHECK(tokenizer->encode(text, {.add_special = one["special"].get_bool(),
                                     .parse_special = true}) == ids_of(one));
    }
    for (const element one : test["decode"].get_array()) {
      CHECK(tokenizer->decode(ids_of(one), one["skip"].get_bool()) ==
            one["text"].get_string().value());
    }
  }
  CHECK(count > 20);
}

const std::string kMarked =
    R"({"added_tokens":[{"id":0,"content":"<s>","special":true,"normalized":true}],)"
    R"("normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"WhitespaceSplit"},)"
    R"("model":{"type":"WordLevel","unk_token":"?","vocab":{"<s>":0,"?":1,"hi":2}}})";

TEST_CASE("what users typed makes no special token where text is normalized first") {
  const auto tokenizer = parse_hf_tokenizer(kMarked, "marked");
  const std::string text = "<S> hi <s>";
  CHECK(tokenizer->encode(text, {.parse_special = true}) == std::vector<TokenId>{0, 2, 0});
  CHECK(tokenizer->encode(text, {}) == std::vector<TokenId>{1, 2, 1});
  const TextRange typed{7, 10};
  CHECK(tokenizer->encode(text, {.parse_special = true, .literal = {&typed, 1}}) ==
        std::vector<TokenId>{1, 2, 1});
}

TEST_CASE("bytes that are not UTF-8 do no harm in any step") {
  std::ifstream lines(test::source_dir() / "tests/engine/tokenizer/pipelines.jsonl");
  simdjson::dom::parser parser;
  for (std::string line; std::getline(lines, line);) {
    const element test = parser.parse(line);
    const auto tokenizer = parse_hf_tokenizer(simdjson::minify(test["file"].value()), "line");
    for (const std::string text :
         {"\xFF", "a\xC3", "\xE4\xB8 x", "\x80\x80 hello \xF0\x9F", "\xED\xA0\x80"}) {
      for (const TokenId id : tokenizer->encode(text, {})) {
        CHECK(id >= 0);
        CHECK(static_cast<std::size_t>(id) < tokenizer->vocab_size());
      }
    }
  }
}

TEST_CASE("rewriting steps can not blow a text up without end") {
  std::string steps;
  for (int i = 0; i < 60; ++i) {
    steps += R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"},)";
  }
  steps.pop_back();
  const auto tokenizer =
      parse_hf_tokenizer(R"({"normalizer":{"type":"Sequence","normalizers":[)" + steps +
                             R"(]},"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0}}})",
                         "doubling");
  CHECK(tokenizer->encode("a", {}) == std::vector<TokenId>{0});
}

}  // namespace
}  // namespace sluice
