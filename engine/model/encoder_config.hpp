// Configuration of encoder-decoder models: what an encoder adds to a decoder's keys.
#pragma once

#include "engine/model/metadata_reader.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// Reads the encoder's keys into a configuration whose sizes have been read, and sets what follows
/// from them: no rope, the context, the activation, the scale of the logits. Throws
/// Error(kCorrupt).
void read_encoder(const MetadataReader& keys, ModelConfig& config);

/// Tokens of the longest input that an engine takes: what the model allows, as far as it goes
/// through the encoder in one step of `step_tokens` and leaves room in `context` for the decoder's
/// first token and one of output. 0 without an encoder. Throws Error(kInvalidArgument) when there
/// is no room for any.
Position longest_input(const ModelConfig& config, Position step_tokens, Position context);

/// Throws Error(kUnsupported) for a model with an encoder: "<what> works with models that have a
/// decoder alone, ...". `what` begins the sentence.
void require_decoder_alone(const ModelConfig& config, std::string_view what);

}  // namespace sluice
