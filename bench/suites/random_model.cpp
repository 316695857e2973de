#include "bench/suites/random_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "bench/suites/random_weights.hpp"
#include "engine/base/error.hpp"
#include "engine/formats/gguf_file_writer.hpp"

namespace sluice::bench {
namespace {

struct Tensor {
  GgufTensorInfo info;
  float deviation = 0;  ///< 0: all ones
};

class TensorList {
 public:
  TensorList(const ModelShape& shape, const TypeMix& types) : shape_(shape), types_(types) {}

  void matrix(const std::string& name, std::int32_t layer, std::int64_t in, std::int64_t out) {
    const DType type = types_.type_of(name, layer, shape_.layers, in);
    if (in % traits(type).block_size != 0)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("rows of {} elements are no whole blocks of {}; use another shape "
                              "or type",
                              in, traits(type).name));
    tensors.push_back(
        {{name + ".weight", type, {in, out}}, 1.0F / std::sqrt(static_cast<float>(in))});
  }
  void norm(const std::string& name) {
    tensors.push_back({{name + ".weight", DType::kF32, {shape_.hidden}}, 0.0F});
  }

  std::vector<Tensor> tensors;

 private:
  const ModelShape& shape_;
  const TypeMix& types_;
};

std::vector<Tensor> tensors_of(const ModelShape& shape, const TypeMix& types) {
  const std::int64_t q = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t kv = std::int64_t{shape.kv_heads} * shape.head_dim;
  TensorList list(shape, types);
  list.matrix("token_embd", 0, shape.hidden, shape.vocab);
  list.norm("output_norm");
  if (!shape.tied) list.matrix("output", 0, shape.hidden, shape.vocab);
  for (std::int32_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = fmt::format("blk.{}.", i);
    list.norm(prefix + "attn_norm");
    list.matrix(prefix + "attn_q", i, shape.hidden, q);
    list.matrix(prefix + "attn_k", i, shape.hidden, kv);
    list.matrix(prefix + "attn_v", i, shape.hidden, kv);
    list.matrix(prefix + "attn_output", i, q, shape.hidden);
    list.norm(prefix + "ffn_norm");
    list.matrix(prefix + "ffn_gate", i, shape.hidden, shape.ffn);
    list.matrix(prefix + "ffn_up", i, shape.hidden, shape.ffn);
    list.matrix(prefix + "ffn_down", i, shape.ffn, shape.hidden);
  }
  return std::move(list.tensors);
}

/// A byte-level vocabulary: printable stand-ins of the 256 bytes, then words nobody writes.
void add_tokenizer(MetadataMap& metadata, std::int32_t vocab) {
  std::vector<std::string> tokens;
  std::int32_t stand_in = 256;
  for (std::int32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const std::int32_t point = printable ? byte : stand_in++;
    std::string token;
    if (point < 128) {
      token = static_cast<char>(point);
    } else {
      token = static_cast<char>(0xC0 | point >> 6);
      token += static_cast<char>(0x80 | (point & 0x3F));
    }
    tokens.push_back(token);
  }
  for (std::int32_t i = 256; i < vocab - 1; ++i) tokens.push_back(fmt::format("w{}", i));
  tokens.emplace_back("<|end|>");
  std::vector<std::int64_t> types(tokens.size(), 1);
  types.back() = 3;
  metadata["tokenizer.ggml.model"] = std::string("gpt2");
  metadata["tokenizer.ggml.pre"] = std::string("gpt-2");
  metadata["tokenizer.ggml.tokens"] = std::move(tokens);
  metadata["tokenizer.ggml.token_type"] = std::move(types);
  metadata["tokenizer.ggml.merges"] = std::vector<std::string>{"a b"};
  metadata["tokenizer.ggml.eos_token_id"] = std::int64_t{vocab - 1};
}

MetadataMap metadata_of(const ModelShape& shape, const TypeMix& types) {
  MetadataMap m;
  m["general.architecture"] = std::string("llama");
  m["general.name"] = fmt::format("{} with random weights, {}", shape.name, types.name);
  const auto number = [&](const char* key, std::int32_t value) {
    m[std::string("llama.") + key] = std::int64_t{value};
  };
  number("block_count", shape.layers);
  number("context_length", shape.context);
  number("embedding_length", shape.hidden);
  number("feed_forward_length", shape.ffn);
  number("attention.head_count", shape.heads);
  number("attention.head_count_kv", shape.kv_heads);
  number("attention.key_length", shape.head_dim);
  number("attention.value_length", shape.head_dim);
  number("rope.dimension_count", shape.head_dim);
  number("vocab_size", shape.vocab);
  m["llama.attention.layer_norm_rms_epsilon"] = 1e-5;
  m["llama.rope.freq_base"] = 500000.0;
  add_tokenizer(m, shape.vocab);
  return m;
}

}  // namespace

DType TypeMix::type_of(std::string_view tensor, std::int32_t layer, std::int32_t layers,
                       std::int64_t row) const {
  if (!sensitive_better) return base;
  const bool sensitive = tensor.ends_with("attn_v") || tensor.ends_with("ffn_down");
  // The first and last eighth of the layers and every third between.
  const bool chosen =
      layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
  const bool head = tensor == "token_embd" || tensor == "output";
  const bool better = head || (sensitive && chosen);
  if (row % 256 == 0) return better ? DType::kQ6_K : DType::kQ4_K;
  return better ? DType::kQ8_0 : DType::kQ5_0;
}

TypeMix parse_types(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  if (lower == "q4_k_m") return {"q4_k_m", DType::kQ4_K, true};
  if (const auto type = dtype_from_name(lower)) return {lower, *type, false};
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("there is no weight type \"{}\"; use f32, f16, bf16, q8_0, q4_0, q4_k, "
                          "q6_k, ... or q4_k_m",
                          text));
}

void write_random_model(const ModelShape& shape, const TypeMix& types,
                        const std::filesystem::path& path, std::uint64_t seed) {
  const std::vector<Tensor> tensors = tensors_of(shape, types);
  std::vector<GgufTensorInfo> infos;
  for (const Tensor& tensor : tensors) infos.push_back(tensor.info);
  GgufFileWriter writer(path, metadata_of(shape, types), infos);
  Random random(seed);
  for (const Tensor& tensor : tensors) {
    const auto row = static_cast<std::size_t>(tensor.info.shape[0]);
    const std::int64_t rows = tensor.info.shape.size() < 2 ? 1 : tensor.info.shape[1];
    if (tensor.deviation == 0.0F) {
      const std::vector<float> ones(row, 1.0F);
      writer.append(std::as_bytes(std::span(ones)));
      continue;
    }
    for (std::int64_t i = 0; i < rows; ++i)
      writer.append(random_weights(tensor.info.type, row, tensor.deviation, random));
  }
  writer.finish();
}

}  // namespace sluice::bench
