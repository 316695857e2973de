// Reading a decoder's shape, and refusing impossible ones.
#include "engine/model/model_config.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/shared_data.hpp"

namespace sluice {
namespace {

using Catch::Contains;
using test::GgufWriter;
using test::TempFile;

/// Keys of a small, consistent llama; a test changes what it is about.
struct Keys {
  std::string architecture = "llama";
  std::string name = "small";
  std::uint32_t layers = 2;
  std::uint32_t hidden = 16;
  std::uint32_t ffn = 24;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t context = 64;
  float epsilon = 1e-6F;
  std::uint32_t rope_dims = 4;
  std::size_t num_tokens = 8;
  std::uint64_t embedding_rows = 8;
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};
};

GgufWriter write(const Keys& keys) {
  GgufWriter writer;
  writer.add_string("general.architecture", keys.architecture);
  if (!keys.name.empty()) writer.add_string("general.name", keys.name);
  writer.add_u32("llama.block_count", keys.layers);
  writer.add_u32("llama.embedding_length", keys.hidden);
  writer.add_u32("llama.feed_forward_length", keys.ffn);
  writer.add_u32("llama.attention.head_count", keys.heads);
  writer.add_u32("llama.attention.head_count_kv", keys.kv_heads);
  writer.add_u32("llama.context_length", keys.context);
  writer.add_f32("llama.attention.layer_norm_rms_epsilon", keys.epsilon);
  writer.add_u32("llama.rope.dimension_count", keys.rope_dims);
  writer.add_strings("tokenizer.ggml.tokens", std::vector<std::string>(keys.num_tokens, "t"));
  keys.more(writer);
  const std::vector<float> values(keys.embedding_rows * 16);
  writer.add_f32_tensor("token_embd.weight", {16, keys.embedding_rows}, values);
  writer.add_f32_tensor("blk.0.attn_norm.weight", {16}, std::vector<float>(16));
  return writer;
}

ModelConfig read(const Keys& keys) {
  const TempFile file = write(keys).write_temp();
  return read_model_config(*open_model(file.path()));
}

std::string refusal(const Keys& keys) {
  try {
    read(keys);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a small llama is read") {
  const ModelConfig config = read({});
  CHECK(config.architecture == "llama");
  CHECK(config.name == "small");
  CHECK(config.num_layers == 2);
  CHECK(config.hidden_size == 16);
  CHECK(config.ffn_size == 24);
  CHECK(config.num_heads == 4);
  CHECK(config.num_kv_heads == 2);
  CHECK(config.head_dim == 4);
  CHECK(config.kv_dim() == 8);
  CHECK(config.vocab_size == 8);
  CHECK(config.context_length == 64);
  CHECK(config.norm_epsilon == 1e-6F);
  CHECK(config.ropes[0].base == 10000.0F);
  CHECK(config.rope_dims == 4);
  CHECK(config.ropes[0].factor == 1.0F);
  CHECK(config.options.rope_layout == RopeLayout::kNeighbours);
  CHECK(config.tied_embeddings);
}

TEST_CASE("optional keys change the shape") {
  Keys keys;
  keys.rope_dims = 6;
  keys.more = [](GgufWriter& writer) {
    writer.add_u32("llama.attention.key_length", 6);
    writer.add_u32("llama.attention.value_length", 6);
    writer.add_f32("llama.rope.freq_base", 500000.0F);
    writer.add_string("llama.rope.scaling.type", "linear");
    writer.add_f32("llama.rope.scaling.factor", 4.0F);
    writer.add_f32_tensor("output.weight", {16, 8}, std::vector<float>(128));
  };
  const ModelConfig config = read(keys);
  CHECK(config.head_dim == 6);
  CHECK(config.ropes[0].base == 500000.0F);
  CHECK(config.ropes[0].factor == 4.0F);
  CHECK_FALSE(config.tied_embeddings);
}

TEST_CASE("a model without a name is called like its file") {
  Keys keys;
  keys.name = "";
  const TempFile file = write(keys).write_temp();
  CHECK(read_model_config(*open_model(file.path())).name == file.path().stem().string());
}

TEST_CASE("impossible shapes are refused and name the key") {
  const auto with = [](auto change) {
    Keys keys;
    change(keys);
    return refusal(keys);
  };
  CHECK_THAT(with([](Keys& k) { k.architecture = "quux"; }),
             Contains("'quux'") && Contains("llama"));
  CHECK_THAT(with([](Keys& k) { k.layers = 4000000000U; }), Contains("llama.block_count"));
  CHECK_THAT(with([](Keys& k) { k.layers = 3; }), Contains("only 2 tensors"));
  CHECK_THAT(with([](Keys& k) { k.layers = 0; }), Contains("llama.block_count"));
  CHECK_THAT(with([](Keys& k) { k.hidden = 0; }), Contains("llama.embedding_length"));
  CHECK_THAT(with([](Keys& k) { k.heads = 0; }), Contains("llama.attention.head_count"));
  CHECK_THAT(with([](Keys& k) { k.heads = 3, k.kv_heads = 3; }), Contains("do not divide"));
  CHECK_THAT(with([](Keys& k) { k.kv_heads = 3; }), Contains("evenly"));
  CHECK_THAT(with([](Keys& k) { k.kv_heads = 0; }), Contains("head_count_kv"));
  CHECK_THAT(with([](Keys& k) { k.ffn = 4000000000U; }), Contains("feed_forward_length"));
  CHECK_THAT(with([](Keys& k) { k.context = 4000000000U; }), Contains("context_length"));
  CHECK_THAT(with([](Keys& k) { k.epsilon = -1.0F; }), Contains("epsilon"));
  CHECK_THAT(with([](Keys& k) { k.epsilon = std::nanf(""); }), Contains("epsilon"));
  CHECK_THAT(with([](Keys& k) { k.rope_dims = 64; }), Contains("rope.dimension_count"));
  CHECK_THAT(with([](Keys& k) { k.rope_dims = 3; }), Contains("must be even"));
  CHECK_THAT(with([](Keys& k) { k.embedding_rows = 7; }), Contains("7 rows"));
}

TEST_CASE("what this build can not compute is refused") {
  const auto with = [](std::function<void(GgufWriter&)> more) {
    Keys keys;
    keys.more = std::move(more);
    return refusal(keys);
  };
  CHECK_THAT(with([](GgufWriter& w) { w.add_string("llama.rope.scaling.type", "dynamic"); }),
             Contains("'dynamic'") && Contains("linear") && Contains("yarn"));
  CHECK_THAT(with([](GgufWriter& w) { w.add_u32("llama.expert_count", 8); }),
             Contains("llama.expert_used_count"));
  CHECK_THAT(with([](GgufWriter& w) {
               w.add_u32("llama.expert_count", 8);
               w.add_u32("llama.expert_used_count", 9);
             }),
             Contains("llama.expert_used_count is 9"));
  CHECK_THAT(with([](GgufWriter& w) { w.add_u32("llama.attention.value_length", 8); }),
             Contains("values 8"));
  CHECK_THAT(with([](GgufWriter& w) { w.add_f32("llama.rope.freq_base", -1.0F); }),
             Contains("rope.freq_base"));
  CHECK(with([](GgufWriter& w) { w.add_f32("llama.rope.scaling.factor", 0.0F); }).empty());
}

/// Faults that only show when weights or text are used, not in the configuration.
const std::set<std::string> kFaultsElsewhere = {"tensor-missing.gguf",   "tensor-wrong-shape.gguf",
                                                "nan-weights.gguf",      "missing-tokens.gguf",
                                                "token-type-short.gguf", "eos-out-of-range.gguf"};

TEST_CASE("damaged reference files are refused and good ones are read") {
  const auto dir = test::shared_dir("reference/broken");
  if (!dir) return;
  std::ifstream manifest(*dir / "manifest.tsv");
  std::string line;
  std::getline(manifest, line);  // column names
  std::size_t count = 0;
  while (std::getline(manifest, line)) {
    std::istringstream columns(line);
    std::string file;
    std::string format;
    std::getline(columns, file, '\t');
    std::getline(columns, format, '\t');
    if (format != "gguf" || kFaultsElsewhere.contains(file)) continue;
    INFO(line);
    ++count;
    std::string message;
    try {
      read_model_config(*open_model(*dir / file));
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message.empty() == file.starts_with("ok-"));
    if (!message.empty()) CHECK_THAT(message, Contains(file) && Catch::EndsWith("."));
  }
  CHECK(count >= 40);
}

TEST_CASE("the shapes of real models are read") {
  const auto dir = test::shared_dir("models");
  if (!dir) return;
  const ModelConfig demo = read_model_config(*open_model(*dir / "demo/demo-q8_0.gguf"));
  CHECK(demo.name == "Sluice demo storyteller");
  CHECK(demo.hidden_size == 192);
  CHECK(demo.num_layers == 6);
  CHECK(demo.num_kv_heads == 3);
  CHECK(demo.head_dim == 32);
  CHECK(demo.vocab_size == 2048);
  CHECK(demo.tied_embeddings);
  const ModelConfig stories = read_model_config(*open_model(*dir / "stories260K.gguf"));
  CHECK(stories.num_heads == 8);
  CHECK(stories.num_kv_heads == 4);
  CHECK_FALSE(stories.tied_embeddings);
}

}  // namespace
}  // namespace sluice
