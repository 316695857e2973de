// Finds the tensors of one layer's feed-forward part, with or without experts.
#pragma once

#include <string>

#include "engine/model/decoder_weights.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/tensor_binder.hpp"

namespace sluice {

/// "blk.3.attn_q" -> its .weight and, where there is one or must be, its .bias.
Projection bind_projection(TensorBinder& binder, const std::string& name, std::int64_t in,
                           std::int64_t out, bool needs_bias = false);

/// Part of a projection's outputs.
Projection slice_outputs(const Projection& whole, std::size_t first, std::size_t count);

/// Fills in layer.ffn or layer.moe. `prefix` is that of the layer, "blk.3.".
void bind_feed_forward(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
                       LayerWeights& layer);

}  // namespace sluice
