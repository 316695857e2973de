#include "engine/model/llama_weights.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/model/tensor_binder.hpp"

namespace sluice {
namespace {

Projection projection(TensorBinder& binder, const std::string& name, std::int64_t in,
                      std::int64_t out) {
  return {binder.matrix(name + ".weight", in, out), binder.optional_vector(name + ".bias", out)};
}

LayerWeights bind_layer(TensorBinder& binder, const ModelConfig& config, std::int32_t index) {
  const std::string prefix = fmt::format("blk.{}.", index);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q_dim = static_cast<std::int64_t>(config.num_heads) * config.head_dim;
  LayerWeights layer;
  layer.attention_norm = binder.vector(prefix + "attn_norm.weight", hidden);
  layer.q = projection(binder, prefix + "attn_q", hidden, q_dim);
  layer.k = projection(binder, prefix + "attn_k", hidden, config.kv_dim());
  layer.v = projection(binder, prefix + "attn_v", hidden, config.kv_dim());
  layer.q_norm = binder.optional_vector(prefix + "attn_q_norm.weight", config.head_dim);
  layer.k_norm = binder.optional_vector(prefix + "attn_k_norm.weight", config.head_dim);
  layer.attention_output = projection(binder, prefix + "attn_output", q_dim, hidden);
  layer.ffn_norm = binder.vector(prefix + "ffn_norm.weight", hidden);
  layer.gate = projection(binder, prefix + "ffn_gate", hidden, config.ffn_size);
  layer.up = projection(binder, prefix + "ffn_up", hidden, config.ffn_size);
  layer.down = projection(binder, prefix + "ffn_down", config.ffn_size, hidden);
  // Old converters stored what is computed from the configuration.
  binder.ignore(prefix + "attn_rot_embd");
  return layer;
}

/// Frequency of pair i: base^(-2 i / dims), divided by the linear factor and, where the file has
/// them, by rope_freqs.weight (the llama 3 way of stretching the context).
std::vector<double> rope_frequencies(TensorBinder& binder, const ModelConfig& config,
                                     const ModelSource& source) {
  const std::int64_t pairs = config.rope_dims / 2;
  const std::vector<float> factors = binder.optional_vector("rope_freqs.weight", pairs);
  std::vector<double> frequencies(static_cast<std::size_t>(pairs));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / config.rope_dims;
    const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[i]);
    frequencies[i] = std::pow(static_cast<double>(config.rope_base), exponent) /
                     (factor * static_cast<double>(config.rope_linear_factor));
    if (!std::isfinite(frequencies[i]))
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{}: the rope settings give no finite frequency for pair {}; check "
                              "rope.freq_base, rope.scaling.factor and rope_freqs.weight",
                              source.path().string(), i));
  }
  return frequencies;
}

}  // namespace

LlamaWeights bind_llama_weights(std::shared_ptr<const ModelSource> source,
                                const ModelConfig& config) {
  TensorBinder binder(*source);
  LlamaWeights weights;
  weights.token_embedding =
      binder.matrix("token_embd.weight", config.hidden_size, config.vocab_size);
  for (std::int32_t i = 0; i < config.num_layers; ++i)
    weights.layers.push_back(bind_layer(binder, config, i));
  weights.output_norm = binder.vector("output_norm.weight", config.hidden_size);
  if (binder.has("output.weight"))
    weights.lm_head = projection(binder, "output", config.hidden_size, config.vocab_size);
  else if (config.tied_embeddings)
    weights.lm_head.weight = weights.token_embedding;
  else
    weights.lm_head = projection(binder, "output", config.hidden_size, config.vocab_size);
  weights.rope_frequencies = rope_frequencies(binder, config, *source);
  binder.expect_all_taken();
  for (const TensorView& tensor : source->tensors()) weights.bytes += tensor.data.size();
  weights.source = std::move(source);
  return weights;
}

}  // namespace sluice
