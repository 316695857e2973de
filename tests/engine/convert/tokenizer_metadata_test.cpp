#include "engine/convert/tokenizer_metadata.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "engine/base/error.hpp"
#include "tests/support/model_folder.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

std::string text(const MetadataMap& keys, std::string_view key) {
  const auto found = keys.find(key);
  return found == keys.end() ? "" : std::get<std::string>(found->second);
}

}  // namespace

TEST_CASE("published tokenizers become GGUF vocabularies with the right name") {
  const auto dir = shared_dir("conformance/tokenizers");
  if (!dir) return;
  struct Known {
    const char* folder;
    std::int64_t vocab_size;
    const char* model;
    const char* pre;
  };
  // add_tokenizer_metadata() compares the tokens itself.
  for (const auto& [folder, vocab_size, model, pre] :
       {Known{"gpt2", 50257, "gpt2", "gpt-2"}, Known{"llama3", 128256, "gpt2", "llama-bpe"},
        Known{"qwen3", 151936, "gpt2", "qwen2"},
        Known{"deepseek_v3", 129280, "gpt2", "deepseek-v3"},
        Known{"llama2", 32000, "llama", "default"}, Known{"mistral_v1", 32000, "llama", "default"},
        Known{"gemma3", 262208, "llama", "default"}}) {
    CAPTURE(folder);
    MetadataMap keys;
    REQUIRE_NOTHROW(add_tokenizer_metadata(*dir / folder / "tokenizer.json", vocab_size, keys));
    CHECK(text(keys, "tokenizer.ggml.model") == model);
    CHECK(text(keys, "tokenizer.ggml.pre") == pre);
    CHECK(std::get<std::vector<std::string>>(keys["tokenizer.ggml.tokens"]).size() ==
          static_cast<std::size_t>(vocab_size));
  }
}

TEST_CASE("a vocabulary larger than the embedding is refused") {
  const TempFolder folder;
  folder.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1},
    "merges": []}, "pre_tokenizer": {"type": "ByteLevel", "use_regex": true,
    "add_prefix_space": false}, "decoder": {"type": "ByteLevel"}})");
  MetadataMap keys;
  CHECK_THROWS_WITH(add_tokenizer_metadata(folder.path() / "tokenizer.json", 1, keys),
                    Contains("'b'") && Contains("1 rows"));
}
