#include "engine/model/encoder_weights.hpp"

#include <fmt/format.h>

#include <string>

#include "engine/model/feed_forward_binder.hpp"

namespace sluice {
namespace {

Norm bind_norm(TensorBinder& binder, const std::string& name, const ModelConfig& config) {
  return {binder.vector(name + ".weight", config.hidden_size), {}};
}

/// q, k, v and output of one attention; `kind` is "attn" or "cross_attn".
struct Attention {
  Projection q, k, v, output;
};

Attention bind_attention(TensorBinder& binder, const std::string& prefix, const std::string& kind,
                         const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q_dim = static_cast<std::int64_t>(config.num_heads) * config.head_dim;
  const std::string name = prefix + kind;
  return {bind_projection(binder, name + "_q", hidden, q_dim),
          bind_projection(binder, name + "_k", hidden, config.kv_dim()),
          bind_projection(binder, name + "_v", hidden, config.kv_dim()),
          bind_projection(binder, name + "_o", q_dim, hidden)};
}

LayerWeights bind_layer(TensorBinder& binder, const std::string& prefix,
                        const ModelConfig& config) {
  LayerWeights layer;
  layer.attention_norm = bind_norm(binder, prefix + "attn_norm", config);
  Attention self = bind_attention(binder, prefix, "attn", config);
  layer.q = std::move(self.q);
  layer.k = std::move(self.k);
  layer.v = std::move(self.v);
  layer.attention_output = std::move(self.output);
  layer.ffn_norm = bind_norm(binder, prefix + "ffn_norm", config);
  bind_feed_forward(binder, prefix, config, layer);
  return layer;
}

CrossAttention bind_cross(TensorBinder& binder, const std::string& prefix,
                          const ModelConfig& config) {
  Attention cross = bind_attention(binder, prefix, "cross_attn", config);
  // Old checkpoints hold a bias that no model reads.
  binder.ignore(prefix + "cross_attn_rel_b.weight");
  return {bind_norm(binder, prefix + "cross_attn_norm", config), std::move(cross.q),
          std::move(cross.k), std::move(cross.v), std::move(cross.output)};
}

RelativeBias bind_bias(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
                       bool both_directions) {
  const std::vector<float> values = binder.table(prefix + "attn_rel_b.weight", config.num_heads,
                                                 config.relative_positions.buckets);
  return make_relative_bias(config.relative_positions, values, config.num_heads, both_directions);
}

}  // namespace

void bind_encoder_decoder(TensorBinder& binder, const ModelConfig& config,
                          DecoderWeights& weights) {
  for (std::int32_t i = 0; i < config.encoder.num_layers; ++i)
    weights.encoder.layers.push_back(bind_layer(binder, fmt::format("enc.blk.{}.", i), config));
  weights.encoder.output_norm = bind_norm(binder, "enc.output_norm", config);
  weights.encoder.bias = bind_bias(binder, "enc.blk.0.", config, true);
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    const std::string prefix = fmt::format("dec.blk.{}.", i);
    weights.layers.push_back(bind_layer(binder, prefix, config));
    weights.layers.back().cross = bind_cross(binder, prefix, config);
  }
  weights.output_norm = bind_norm(binder, "dec.output_norm", config);
  weights.bias = bind_bias(binder, "dec.blk.0.", config, false);
}

}  // namespace sluice
