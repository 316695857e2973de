// Token ids against those of other implementations, for real vocabularies.
#include <simdjson.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice {
namespace {

std::vector<TokenId> read_ids(simdjson::dom::element array) {
  std::vector<TokenId> ids;
  for (const simdjson::dom::element id : array.get_array()) {
    ids.push_back(static_cast<TokenId>(id.get_int64().value()));
  }
  return ids;
}

/// Runs one case of a cases.jsonl file.
void check_case(const Tokenizer& tokenizer, simdjson::dom::element test) {
  const std::string text(test["text"].get_string().value());
  const std::vector<TokenId> ids = read_ids(test["ids"]);
  EncodeOptions options;
  options.add_special = test["add_special_tokens"].get_bool();
  options.parse_special = test["parse_special"].get_bool();
  INFO("case " << test["id"].get_string().value() << ": " << text);
  CHECK(tokenizer.encode(text, options) == ids);
  std::string_view decoded;
  if (test["decoded"].get(decoded) == simdjson::SUCCESS) {
    CHECK(tokenizer.decode(ids, false) == decoded);
  }
}

void check_vocabulary(const std::string& name) {
  const auto dir = test::shared_dir("conformance/vocab-gguf/" + name);
  if (!dir) return;
  const auto source = open_model(*dir / ("ggml-vocab-" + name + ".gguf"));
  const auto tokenizer = make_tokenizer(*source);
  INFO(name << ": " << tokenizer->description());
  std::ifstream lines(*dir / "cases.jsonl");
  simdjson::dom::parser parser;
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    check_case(*tokenizer, parser.parse(line));
    ++count;
  }
  CHECK(count > 50);
}

TEST_CASE("ids equal those of other implementations for baichuan") {
  check_vocabulary("baichuan");
}
TEST_CASE("ids equal those of other implementations for deepseek-coder") {
  check_vocabulary("deepseek-coder");
}
TEST_CASE("ids equal those of other implementations for deepseek-llm") {
  check_vocabulary("deepseek-llm");
}
TEST_CASE("ids equal those of other implementations for falcon") {
  check_vocabulary("falcon");
}
TEST_CASE("ids equal those of other implementations for gpt-2") {
  check_vocabulary("gpt-2");
}
TEST_CASE("ids equal those of other implementations for gpt-neox") {
  check_vocabulary("gpt-neox");
}
TEST_CASE("ids equal those of other implementations for llama-spm") {
  check_vocabulary("llama-spm");
}
TEST_CASE("ids equal those of other implementations for mpt") {
  check_vocabulary("mpt");
}
TEST_CASE("ids equal those of other implementations for phi-3") {
  check_vocabulary("phi-3");
}
TEST_CASE("ids equal those of other implementations for refact") {
  check_vocabulary("refact");
}
TEST_CASE("ids equal those of other implementations for starcoder") {
  check_vocabulary("starcoder");
}

/// The vocabularies of the reference models: bpe.json and spm.json.
void check_reference(const std::string& file) {
  const auto dir = test::shared_dir("reference/tokenizer");
  if (!dir) return;
  simdjson::dom::parser parser;
  const simdjson::dom::element root = parser.load((*dir / file).string());
  const auto source = open_model(*dir / root["model"].get_string().value());
  const auto tokenizer = make_tokenizer(*source);
  for (const simdjson::dom::element test : root["cases"].get_array()) {
    const std::string text(test["text"].get_string().value());
    INFO("text: " << text);
    CHECK(tokenizer->encode(text, {.add_special = true, .parse_special = true}) ==
          read_ids(test["ids"]));
    simdjson::dom::element plain;
    if (test["ids_no_special"].get(plain) == simdjson::SUCCESS) {
      CHECK(tokenizer->encode(text, {.add_special = true}) == read_ids(plain));
    }
  }
}

TEST_CASE("ids of the reference models with byte level BPE") {
  check_reference("bpe.json");
}
TEST_CASE("ids of the reference models with SentencePiece BPE") {
  check_reference("spm.json");
}

}  // namespace
}  // namespace sluice
