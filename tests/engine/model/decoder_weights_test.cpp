#include "engine/model/decoder_weights.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "engine/base/error.hpp"
#include "tests/support/gguf_writer.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

ModelConfig tiny_config() {
  ModelConfig c;
  c.architecture = "llama";
  c.num_layers = 1;
  c.hidden_size = 32;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 8;
  c.ffn_size = 64;
  c.vocab_size = 10;
  c.rope_dims = 8;
  c.tied_embeddings = true;
  return c;
}

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
};

std::vector<Tensor> tiny_tensors() {
  return {{"token_embd.weight", {32, 10}},        {"output_norm.weight", {32}},
          {"blk.0.attn_norm.weight", {32}},       {"blk.0.attn_q.weight", {32, 32}},
          {"blk.0.attn_k.weight", {32, 16}},      {"blk.0.attn_v.weight", {32, 16}},
          {"blk.0.attn_output.weight", {32, 32}}, {"blk.0.ffn_norm.weight", {32}},
          {"blk.0.ffn_gate.weight", {32, 64}},    {"blk.0.ffn_up.weight", {32, 64}},
          {"blk.0.ffn_down.weight", {64, 32}}};
}

TempFile write(const std::vector<Tensor>& tensors) {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  for (const Tensor& t : tensors) {
    std::size_t n = 1;
    for (const std::uint64_t d : t.shape) n *= d;
    writer.add_f32_tensor(t.name, t.shape, std::vector<float>(n, 2.0F));
  }
  return writer.write_temp();
}

DecoderWeights bound(const std::vector<Tensor>& tensors,
                     const ModelConfig& config = tiny_config()) {
  const TempFile file = write(tensors);
  return bind_decoder_weights(open_model(file.path()), config);
}

/// The message of the error that binding must give; names the file always.
std::string refusal(const std::vector<Tensor>& tensors, ErrorCode code,
                    const ModelConfig& config = tiny_config()) {
  const TempFile file = write(tensors);
  try {
    bind_decoder_weights(open_model(file.path()), config);
  } catch (const Error& e) {
    CHECK(e.code() == code);
    CHECK(std::string(e.what()).find(file.path().string()) != std::string::npos);
    return e.what();
  }
  return "nothing was refused";
}

bool names(const std::string& message, const std::string& what) {
  CAPTURE(message);
  return message.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("a complete set of tensors is bound and counted") {
  const DecoderWeights w = bound(tiny_tensors());
  REQUIRE(w.layers.size() == 1);
  CHECK(w.lm_head.weight.data == w.token_embedding.data);
  CHECK(w.layers[0].k.weight.rows == 16);
  CHECK(w.layers[0].ffn.down.weight.cols == 64);
  CHECK(w.layers[0].q.bias.empty());
  std::size_t elements = 0;
  for (const Tensor& t : tiny_tensors()) {
    std::size_t n = 1;
    for (const std::uint64_t d : t.shape) n *= d;
    elements += n;
  }
  CHECK(w.bytes == elements * 4);
  REQUIRE(w.ropes[0].frequencies.size() == 4);
  CHECK(w.ropes[0].frequencies[0] == 1.0);
  CHECK(w.ropes[0].frequencies[2] == Approx(0.01));
}

TEST_CASE("each missing tensor is named") {
  for (std::size_t i = 0; i < tiny_tensors().size(); ++i) {
    std::vector<Tensor> tensors = tiny_tensors();
    const std::string name = tensors[i].name;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(names(refusal(tensors, ErrorCode::kCorrupt), name));
  }
}

TEST_CASE("each wrong shape is named") {
  for (std::size_t i = 0; i < tiny_tensors().size(); ++i) {
    std::vector<Tensor> tensors = tiny_tensors();
    tensors[i].shape.back() += 2;
    CHECK(names(refusal(tensors, ErrorCode::kCorrupt), tensors[i].name));
    tensors = tiny_tensors();
    tensors[i].shape.push_back(2);
    CHECK(names(refusal(tensors, ErrorCode::kCorrupt), tensors[i].name));
  }
}

TEST_CASE("an LM head of its own is used and asked for when embeddings are not tied") {
  std::vector<Tensor> tensors = tiny_tensors();
  ModelConfig config = tiny_config();
  config.tied_embeddings = false;
  CHECK(names(refusal(tensors, ErrorCode::kCorrupt, config), "output.weight"));
  tensors.push_back({"output.weight", {32, 10}});
  const DecoderWeights w = bound(tensors, config);
  CHECK(w.lm_head.weight.data != w.token_embedding.data);
}

TEST_CASE("biases and head norms are taken where they exist") {
  std::vector<Tensor> tensors = tiny_tensors();
  tensors.push_back({"blk.0.attn_q.bias", {32}});
  tensors.push_back({"blk.0.attn_k_norm.weight", {8}});
  tensors.push_back({"blk.0.ffn_down.bias", {32}});
  const DecoderWeights w = bound(tensors);
  CHECK(w.layers[0].q.bias == std::vector<float>(32, 2.0F));
  CHECK(w.layers[0].k_norm.size() == 8);
  CHECK(w.layers[0].q_norm.empty());
  CHECK(w.layers[0].ffn.down.bias.size() == 32);
}

TEST_CASE("a tensor that would be ignored is refused") {
  for (const char* name : {"blk.0.ffn_gate_inp.weight", "blk.1.attn_norm.weight", "surprise"}) {
    std::vector<Tensor> tensors = tiny_tensors();
    tensors.push_back({name, {32}});
    CHECK(names(refusal(tensors, ErrorCode::kUnsupported), name));
  }
}

TEST_CASE("frequency factors and the linear factor divide the frequencies") {
  std::vector<Tensor> tensors = tiny_tensors();
  tensors.push_back({"rope_freqs.weight", {4}});
  ModelConfig config = tiny_config();
  config.ropes[0].scaling = RopeScaling::kLinear;
  config.ropes[0].factor = 4.0F;
  const DecoderWeights w = bound(tensors, config);
  CHECK(w.ropes[0].frequencies[0] == Approx(1.0 / 8.0));
  CHECK(w.ropes[0].frequencies[1] == Approx(0.1 / 8.0));
  config.ropes[0].factor = 0.0F;
  refusal(tensors, ErrorCode::kCorrupt, config);
}

TEST_CASE("rows that are not whole blocks of their type are refused") {
  // 48 elements are one and a half blocks of Q8_0; the whole tensor has a whole number of them.
  ModelConfig config = tiny_config();
  config.hidden_size = 48;
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_tensor("token_embd.weight", {48, 10}, 8, std::string(48 * 10 / 32 * 34, '\0'));
  const TempFile file = writer.write_temp();
  try {
    bind_decoder_weights(open_model(file.path()), config);
    FAIL("bound");
  } catch (const Error& e) {
    CHECK(e.code() == ErrorCode::kCorrupt);
  }
}

TEST_CASE("broken weight files of the reference are refused with the tensor's name") {
  const auto dir = shared_dir("reference/broken");
  if (!dir) return;
  const std::vector<std::pair<std::string, std::string>> files = {
      {"tensor-missing.gguf", "blk.0.ffn_down.weight"},
      {"tensor-wrong-shape.gguf", "blk.0.attn_q.weight"},
      {"vocab-mismatch.gguf", "token_embd.weight"}};
  for (const auto& [file, tensor] : files) {
    CAPTURE(file);
    try {
      const auto source = open_model(*dir / file);
      bind_decoder_weights(source, read_model_config(*source));
      FAIL_CHECK("bound");
    } catch (const Error& e) {
      CHECK(names(e.what(), tensor));
      CHECK(names(e.what(), file));
    }
  }
}
