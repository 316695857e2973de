#include "engine/model/decoder_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/model/encoder_weights.hpp"
#include "engine/model/feed_forward_binder.hpp"
#include "engine/model/tensor_binder.hpp"

namespace sluice {
namespace {

Norm bind_norm(TensorBinder& binder, const std::string& name, const ModelConfig& config) {
  Norm norm{binder.vector(name + ".weight", config.hidden_size), {}};
  const bool needs_bias = config.options.norm == NormKind::kLayer &&
                          config.options.required_biases == RequiredBiases::kAll;
  if (config.options.norm == NormKind::kLayer)
    norm.bias = needs_bias ? binder.vector(name + ".bias", config.hidden_size)
                           : binder.optional_vector(name + ".bias", config.hidden_size);
  return norm;
}

void bind_qkv(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
              LayerWeights& layer) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q_dim = static_cast<std::int64_t>(config.num_heads) * config.head_dim;
  const std::int64_t kv_dim = config.kv_dim();
  const bool needs_bias = config.options.required_biases != RequiredBiases::kNone;
  if (binder.has(prefix + "attn_qkv.weight")) {
    const Projection all =
        bind_projection(binder, prefix + "attn_qkv", hidden, q_dim + 2 * kv_dim, needs_bias);
    const auto q = static_cast<std::size_t>(q_dim);
    const auto kv = static_cast<std::size_t>(kv_dim);
    layer.q = slice_outputs(all, 0, q);
    layer.k = slice_outputs(all, q, kv);
    layer.v = slice_outputs(all, q + kv, kv);
    return;
  }
  layer.q = bind_projection(binder, prefix + "attn_q", hidden, q_dim, needs_bias);
  layer.k = bind_projection(binder, prefix + "attn_k", hidden, kv_dim, needs_bias);
  layer.v = bind_projection(binder, prefix + "attn_v", hidden, kv_dim, needs_bias);
}

void bind_qk_norms(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
                   LayerWeights& layer) {
  const std::string q = prefix + "attn_q_norm.weight";
  const std::string k = prefix + "attn_k_norm.weight";
  switch (config.options.qk_norm) {
    case QkNorm::kIfPresent:
      layer.q_norm = binder.optional_vector(q, config.head_dim);
      layer.k_norm = binder.optional_vector(k, config.head_dim);
      return;
    case QkNorm::kPerHead:
      layer.q_norm = binder.vector(q, config.head_dim);
      layer.k_norm = binder.vector(k, config.head_dim);
      return;
    case QkNorm::kWholeVector:
      layer.q_norm =
          binder.vector(q, static_cast<std::int64_t>(config.num_heads) * config.head_dim);
      layer.k_norm = binder.vector(k, config.kv_dim());
      return;
  }
}

void bind_norms(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
                LayerWeights& layer) {
  const DecoderOptions& options = config.options;
  if (options.norm_before) {
    layer.attention_norm = bind_norm(binder, prefix + "attn_norm", config);
    if (options.parallel_block && binder.has(prefix + "attn_norm_2.weight")) {
      // Falcon 40B: the second is attention's, the first the feed-forward part's.
      layer.ffn_norm =
          std::exchange(layer.attention_norm, bind_norm(binder, prefix + "attn_norm_2", config));
    } else if (!options.shared_norm) {
      layer.ffn_norm =
          bind_norm(binder, fmt::format("{}{}", prefix, options.ffn_norm_name), config);
    }
  }
  if (options.norm_after) {
    layer.attention_post_norm = bind_norm(binder, prefix + "post_attention_norm", config);
    layer.ffn_post_norm = bind_norm(binder, prefix + "post_ffw_norm", config);
  }
}

LayerWeights bind_layer(TensorBinder& binder, const ModelConfig& config, std::int32_t index) {
  const std::string prefix = fmt::format("blk.{}.", index);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q_dim = static_cast<std::int64_t>(config.num_heads) * config.head_dim;
  LayerWeights layer;
  bind_norms(binder, prefix, config, layer);
  bind_qkv(binder, prefix, config, layer);
  bind_qk_norms(binder, prefix, config, layer);
  if (config.options.attention_sinks)
    layer.sinks = binder.vector(prefix + "attn_sinks.weight", config.num_heads);
  layer.attention_output = bind_projection(binder, prefix + "attn_output", q_dim, hidden,
                                           config.options.required_biases == RequiredBiases::kAll);
  bind_feed_forward(binder, prefix, config, layer);
  // Old converters stored what is computed from the configuration.
  binder.ignore(prefix + "attn_rot_embd");
  binder.ignore(prefix + "attn_rot_embd.inv_freq");
  return layer;
}

/// The factors that divide the frequencies: rope_freqs.weight (the llama 3 way of stretching the
/// context), or the long or short list of longrope, chosen by the context in use.
std::vector<float> rope_factors(TensorBinder& binder, const ModelConfig& config,
                                const RopeConfig& rope) {
  const std::int64_t pairs = config.rope_dims / 2;
  if (rope.scaling == RopeScaling::kLongRope || binder.has("rope_factors_long.weight")) {
    std::vector<float> long_factors = binder.vector("rope_factors_long.weight", pairs);
    std::vector<float> short_factors = binder.vector("rope_factors_short.weight", pairs);
    const Position context =
        config.context_in_use > 0 ? config.context_in_use : config.context_length;
    return context > rope.original_context ? long_factors : short_factors;
  }
  return binder.optional_vector("rope_freqs.weight", pairs);
}

RopeTable bind_rope(TensorBinder& binder, const ModelConfig& config, const RopeConfig& rope,
                    const ModelSource& source) {
  std::vector<float> factors;
  if (rope.factor_tensors) factors = rope_factors(binder, config, rope);
  RopeTable table = make_rope_table(rope, config.rope_dims, factors);
  const auto wrong =
      std::ranges::find_if_not(table.frequencies, [](double f) { return std::isfinite(f); });
  if (wrong != table.frequencies.end())
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: the rope settings give no finite frequency for pair {}; check "
                            "rope.freq_base, rope.scaling and rope_freqs.weight",
                            source.path().string(), wrong - table.frequencies.begin()));
  return table;
}

}  // namespace

DecoderWeights bind_decoder_weights(std::shared_ptr<const ModelSource> source,
                                    const ModelConfig& config) {
  TensorBinder binder(*source);
  DecoderWeights weights;
  weights.token_embedding =
      binder.matrix("token_embd.weight", config.hidden_size, config.vocab_size);
  if (config.options.learned_positions)
    weights.position_embedding =
        binder.matrix("position_embd.weight", config.hidden_size, config.context_length);
  if (config.has_encoder()) {
    bind_encoder_decoder(binder, config, weights);
  } else {
    for (std::int32_t i = 0; i < config.num_layers; ++i)
      weights.layers.push_back(bind_layer(binder, config, i));
    weights.output_norm = bind_norm(binder, "output_norm", config);
  }
  if (binder.has("output.weight") || !config.tied_embeddings)
    weights.lm_head = bind_projection(binder, "output", config.hidden_size, config.vocab_size);
  else
    weights.lm_head.weight = weights.token_embedding;
  for (const RopeConfig& rope : config.ropes)
    weights.ropes.push_back(bind_rope(binder, config, rope, *source));
  binder.expect_all_taken();
  for (const TensorView& tensor : source->tensors()) weights.bytes += tensor.data.size();
  weights.source = std::move(source);
  return weights;
}

}  // namespace sluice
