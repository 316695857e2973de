// Finds the tensors of an encoder-decoder model (names "enc.blk.N." and "dec.blk.N.").
#pragma once

#include "engine/model/decoder_weights.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/tensor_binder.hpp"

namespace sluice {

/// Fills in both stacks, their norms and biases. Throws as bind_decoder_weights.
void bind_encoder_decoder(TensorBinder& binder, const ModelConfig& config, DecoderWeights& weights);

}  // namespace sluice
