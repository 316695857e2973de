// Hugging Face folders against the GGUF files of the same weights, and by hand.
#include "engine/formats/hf_folder.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/support/model_folder.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;
using Catch::Matchers::Contains;

namespace {

std::vector<float> values_of(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  traits(tensor.type).dequantize(tensor.data.data(), values.data(), values.size());
  return values;
}

/// Rows of each head from the order of neighbours (GGUF row 2i and 2i+1) to that of halves.
std::vector<float> neighbours_to_halves(const std::vector<float>& values, std::size_t row,
                                        std::size_t head_dim) {
  std::vector<float> out(values.size());
  const std::size_t rows = values.size() / row;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t i = r % head_dim;
    const std::size_t to = r - i + i / 2 + (i % 2) * head_dim / 2;
    for (std::size_t c = 0; c < row; ++c) out[to * row + c] = values[r * row + c];
  }
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return largest;
}

void check_same_keys(const ModelSource& folder, const ModelSource& gguf) {
  const std::string arch = gguf.require_string("general.architecture");
  CHECK(folder.require_string("general.architecture") == arch);
  for (const auto& [key, value] : gguf.metadata()) {
    if (!key.starts_with(arch + ".")) continue;
    // Head sizes that follow from the others need not be said.
    if (key.ends_with("_length") && folder.get_int(key).value_or(16) == 16) continue;
    CAPTURE(key);
    const auto found = folder.metadata().find(key);
    REQUIRE(found != folder.metadata().end());
    CHECK(found->second == value);
  }
}

void check_same_tensors(const ModelSource& folder, const ModelSource& gguf, double tolerance) {
  const std::string arch = gguf.require_string("general.architecture");
  CHECK(folder.tensors().size() == gguf.tensors().size());
  const bool halves = folder.get_bool("sluice.rope_halves").value_or(false);
  CHECK(halves == (arch == "llama"));
  for (const TensorView& expected : gguf.tensors()) {
    CAPTURE(expected.name);
    const TensorView* tensor = folder.find_tensor(expected.name);
    REQUIRE(tensor != nullptr);
    CHECK(tensor->shape == expected.shape);
    std::vector<float> values = values_of(expected);
    const bool rotated = expected.name.find("attn_q.") != std::string::npos ||
                         expected.name.find("attn_k.") != std::string::npos;
    if (halves && rotated) {
      const auto head_dim =
          static_cast<std::size_t>(gguf.require_int(arch + ".embedding_length") /
                                   gguf.require_int(arch + ".attention.head_count"));
      values = neighbours_to_halves(values, static_cast<std::size_t>(expected.shape[0]), head_dim);
    }
    CHECK(largest_difference(values_of(*tensor), values) <= tolerance);
  }
}

constexpr const char* kTinyConfig =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8,
        "intermediate_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        "vocab_size": 3, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": true)";

/// A folder with the given end of config.json and an embedding.
std::string refusal(const std::string& config, const SafetensorsWriter* weights = nullptr) {
  const TempFolder folder;
  folder.write("config.json", config);
  SafetensorsWriter embedding;
  embedding.add_f32("model.embed_tokens.weight", {3, 8}, std::vector<float>(24));
  folder.write("model.safetensors", (weights != nullptr ? weights : &embedding)->bytes());
  try {
    open_model(folder.path());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a folder has the keys and the weights of the GGUF file of the same model") {
  const auto dir = shared_dir("reference");
  if (!dir) return;
  for (const char* name : {"llama-gqa", "qwen2", "qwen3", "gemma3", "gpt2"}) {
    for (const char* form : {"f32", "bf16-sharded"}) {
      CAPTURE(name, form);
      const auto gguf = open_model(*dir / "models" / name / "model.gguf");
      const auto folder = open_model(*dir / "hf" / name / form);
      check_same_keys(*folder, *gguf);
      // A value of up to 4 is off by at most 2^-7 of 2 after rounding to 8 bits.
      check_same_tensors(*folder, *gguf, form == std::string("f32") ? 2e-7 : 0.016);
      CHECK(folder->get_string("tokenizer.chat_template") != nullptr);
      CHECK(*folder->get_string("tokenizer.chat_template") ==
            *gguf->get_string("tokenizer.chat_template"));
    }
  }
}

TEST_CASE("a window on all layers of a mistral folder is kept") {
  const auto dir = shared_dir("reference/hf/mistral-swa/f32");
  if (!dir) return;
  const auto source = open_model(*dir / "model.safetensors");  // stands for its folder
  CHECK(source->require_string("general.architecture") == "llama");
  CHECK(source->require_int("llama.attention.sliding_window") == 32);
  CHECK(source->get_bool("sluice.sliding_window_all_layers") == true);
}

TEST_CASE("odd places of weights are no matter") {
  for (const bool padded : {true, false}) {
    const TempFolder folder;
    folder.write("config.json", std::string(kTinyConfig) + "}");
    SafetensorsWriter weights;
    weights.padded = padded;
    std::vector<float> values(24);
    std::iota(values.begin(), values.end(), 1.0F);
    weights.add_f32("model.embed_tokens.weight", {3, 8}, values);
    folder.write("model.safetensors", weights.bytes());
    const auto source = open_model(folder.path());
    const TensorView* embedding = source->find_tensor("token_embd.weight");
    REQUIRE(embedding != nullptr);
    CHECK(embedding->shape == std::vector<std::int64_t>{8, 3});
    CHECK(reinterpret_cast<std::uintptr_t>(embedding->data.data()) % 4 == 0);
    CHECK(values_of(*embedding) == values);
  }
}

TEST_CASE("faults of config.json are named") {
  const std::string tiny = kTinyConfig;
  CHECK(refusal(tiny + "}").empty());
  CHECK_THAT(refusal(tiny), Contains("config.json") && Contains("not valid JSON"));
  CHECK_THAT(refusal("[]"), Contains("not a JSON object"));
  CHECK_THAT(refusal("{}"), Contains("\"architectures\""));
  CHECK_THAT(refusal(R"({"architectures": ["LlamaForSequenceClassification"]})"),
             Contains("'LlamaForSequenceClassification'") && Contains("qwen3_moe"));
  CHECK_THAT(refusal(R"({"model_type": "nosuch"})"), Contains("'nosuch'"));
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string config = tiny + "}";
    config.replace(config.find(from), from.size(), to);
    return refusal(config);
  };
  CHECK_THAT(changed("num_hidden_layers", "x"), Contains("\"num_hidden_layers\" is missing"));
  CHECK_THAT(changed("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 4000000000"),
             Contains("4000000000"));
  CHECK_THAT(changed("\"num_hidden_layers\": 1", "\"num_hidden_layers\": \"1\""),
             Contains("not a whole number"));
  CHECK_THAT(changed("\"num_attention_heads\": 2", "\"num_attention_heads\": 3"),
             Contains("do not divide"));
  CHECK_THAT(changed("\"vocab_size\": 3", "\"vocab_size\": 4"), Contains("3 rows"));
  CHECK_THAT(changed("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"),
             Contains("lm_head.weight"));
  CHECK_THAT(refusal(tiny + R"(, "num_key_value_heads": 3})"), Contains("share"));
  CHECK_THAT(refusal(tiny + R"(, "hidden_act": "relu"})"), Contains("'relu'"));
  CHECK_THAT(refusal(tiny + R"(, "rope_scaling": {"type": "new"}})"), Contains("'new'"));
  CHECK_THAT(refusal(tiny + R"(, "rope_scaling": {"type": "linear"}})"), Contains("factor"));
  CHECK_THAT(refusal(tiny + R"(, "rope_scaling": {"type": "linear", "factor": -1}})"),
             Contains("-1"));
}

TEST_CASE("weights of types without a meaning are refused by name") {
  SafetensorsWriter weights;
  weights.add_f32("model.embed_tokens.weight", {3, 8}, std::vector<float>(24));
  weights.add("model.layers.0.mlp.down_proj.weight", "I8", {8, 4}, std::string(32, 'x'));
  CHECK_THAT(refusal(std::string(kTinyConfig) + "}", &weights),
             Contains("model.layers.0.mlp.down_proj.weight") && Contains("I8"));
}

TEST_CASE("two names for one tensor are refused") {
  SafetensorsWriter weights;
  weights.add_f32("model.embed_tokens.weight", {3, 8}, std::vector<float>(24));
  weights.add_f32("embed_tokens.weight", {3, 8}, std::vector<float>(24));
  CHECK_THAT(refusal(std::string(kTinyConfig) + "}", &weights), Contains("two tensors stand for"));
}

TEST_CASE("folders without configuration or weights are refused with what is missing") {
  const TempFolder folder;
  CHECK_THROWS_WITH(open_model(folder.path()), Contains("config.json"));
  folder.write("config.json", std::string(kTinyConfig) + "}");
  CHECK_THROWS_WITH(open_model(folder.path()), Contains("model.safetensors.index.json"));
  folder.write("pytorch_model.bin", "x");
  CHECK_THROWS_WITH(open_model(folder.path()), Contains("PyTorch"));
}
