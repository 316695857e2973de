// Token ids of published tokenizers that exist as tokenizer.json. Each is rewritten here as GGUF
// metadata, as a converter would, and must give the ids that its own library gives.
#include <simdjson.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

/// The parts of a tokenizer.json that become metadata.
struct Contents {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;   ///< "left right"
  std::vector<std::string> results;  ///< left and right joined, in the same order
};

void put(Contents& contents, std::uint64_t id, std::string_view text, std::int32_t kind) {
  if (id >= contents.tokens.size()) {
    contents.tokens.resize(id + 1);
    contents.kinds.resize(id + 1, 5);
  }
  contents.tokens[id] = text;
  contents.kinds[id] = kind;
}

Contents read_contents(const std::filesystem::path& path) {
  simdjson::dom::parser parser;
  const element root = parser.load(path.string());
  Contents contents;
  for (const auto& [text, id] : root["model"]["vocab"].get_object()) {
    const bool is_byte = text.size() == 6 && text.starts_with("<0x");
    put(contents, id.get_uint64(), text, is_byte ? 6 : 1);
  }
  for (const element added : root["added_tokens"].get_array()) {
    const std::string_view text = added["content"];
    const bool is_special = added["special"];
    // Runs of the space mark are reached by merging; as added words only raw marks match them.
    if (text.starts_with("\xE2\x96\x81")) continue;
    put(contents, added["id"].get_uint64(), text, is_special ? 3 : 4);
  }
  for (const element merge : root["model"]["merges"].get_array()) {
    std::string left;
    std::string right;
    if (merge.is_array()) {
      left = std::string(merge.at(0).get_string().value());
      right = std::string(merge.at(1).get_string().value());
    } else {
      const std::string both(merge.get_string().value());
      const std::size_t space = both.find(' ', 1);
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    contents.merges.push_back(left + " " + right);
    contents.results.push_back(left + right);
  }
  return contents;
}

test::GgufWriter as_byte_level(const Contents& contents, const std::string& pre) {
  test::GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", pre);
  writer.add_strings("tokenizer.ggml.tokens", contents.tokens);
  writer.add_i32s("tokenizer.ggml.token_type", contents.kinds);
  writer.add_strings("tokenizer.ggml.merges", contents.merges);
  return writer;
}

/// A piece scores as early as the first merge that makes it.
test::GgufWriter as_sentence_piece(const Contents& contents, bool add_space_prefix) {
  std::unordered_map<std::string, float> score_of;
  for (std::size_t rank = 0; rank < contents.results.size(); ++rank) {
    score_of.emplace(contents.results[rank], -static_cast<float>(rank));
  }
  std::vector<float> scores;
  for (const std::string& token : contents.tokens) {
    const auto found = score_of.find(token);
    scores.push_back(found == score_of.end() ? -1e9F : found->second);
  }
  test::GgufWriter writer;
  writer.add_string("tokenizer.ggml.model", "llama");
  writer.add_strings("tokenizer.ggml.tokens", contents.tokens);
  writer.add_i32s("tokenizer.ggml.token_type", contents.kinds);
  writer.add_f32s("tokenizer.ggml.scores", scores);
  writer.add_bool("tokenizer.ggml.add_space_prefix", add_space_prefix);
  return writer;
}

std::uint32_t id_of(const Contents& contents, const std::string& token) {
  const auto found = std::find(contents.tokens.begin(), contents.tokens.end(), token);
  REQUIRE(found != contents.tokens.end());
  return static_cast<std::uint32_t>(found - contents.tokens.begin());
}

/// Runs the cases of one tokenizer; returns the names of those with other ids.
std::vector<std::string> differing_cases(const Tokenizer& tokenizer,
                                         const std::filesystem::path& dir) {
  std::vector<std::string> differing;
  simdjson::dom::parser parser;
  std::ifstream lines(dir / "cases.jsonl");
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    const element test = parser.parse(line);
    std::vector<TokenId> ids;
    for (const element id : test["ids"].get_array()) {
      ids.push_back(static_cast<TokenId>(id.get_int64().value()));
    }
    EncodeOptions options;
    options.add_special = test["add_special_tokens"].get_bool();
    options.parse_special = test["parse_special"].get_bool();
    const std::string text(test["text"].get_string().value());
    const bool same_ids = tokenizer.encode(text, options) == ids;
    const bool same_text = tokenizer.decode(ids, false) == test["decoded"].get_string().value();
    if (!same_ids || !same_text) differing.emplace_back(test["id"].get_string().value());
    ++count;
  }
  CHECK(count > 300);
  return differing;
}

void check_byte_level(const std::string& name, const std::string& pre, const std::string& bos,
                      const std::vector<std::string>& expected_differing = {}) {
  const auto dir = test::shared_dir("conformance/tokenizers/" + name);
  if (!dir) return;
  const Contents contents = read_contents(*dir / "tokenizer.json");
  test::GgufWriter writer = as_byte_level(contents, pre);
  if (!bos.empty()) writer.add_u32("tokenizer.ggml.bos_token_id", id_of(contents, bos));
  const test::TempFile file = writer.write_temp();
  CHECK(differing_cases(*make_tokenizer(*open_model(file.path())), *dir) == expected_differing);
}

void check_sentence_piece(const std::string& name, const std::string& bos, bool add_space_prefix) {
  const auto dir = test::shared_dir("conformance/tokenizers/" + name);
  if (!dir) return;
  const Contents contents = read_contents(*dir / "tokenizer.json");
  test::GgufWriter writer = as_sentence_piece(contents, add_space_prefix);
  writer.add_u32("tokenizer.ggml.bos_token_id", id_of(contents, bos));
  const test::TempFile file = writer.write_temp();
  CHECK(differing_cases(*make_tokenizer(*open_model(file.path())), *dir).empty());
}

TEST_CASE("ids of the tokenizer of llama 3") {
  check_byte_level("llama3", "llama-bpe", "<|begin_of_text|>");
}
TEST_CASE("ids of the tokenizer of qwen 3") {
  check_byte_level("qwen3", "qwen2", "");
}
TEST_CASE("ids of the tokenizer of deepseek v3") {
  check_byte_level("deepseek_v3", "deepseek-v3", "");
}
TEST_CASE("ids of the tokenizer of gpt 2") {
  check_byte_level("gpt2", "gpt-2", "");
}
TEST_CASE("ids of the tokenizer of llama 2") {
  check_sentence_piece("llama2", "<s>", true);
}
TEST_CASE("ids of the tokenizer of mistral v1") {
  check_sentence_piece("mistral_v1", "<s>", true);
}
TEST_CASE("ids of the tokenizer of gemma 3") {
  check_sentence_piece("gemma3", "<bos>", false);
}

}  // namespace
}  // namespace sluice
