// A model's shape from a line of text, to plan for it before there is a file.
//
// Worked example: "layers=32,hidden=4096,heads=32" is the 7B class: kv-heads as heads, head-dim
// 128, ffn 11008, vocab 32000, context 4096 follow; 6.74 billion weights.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/formats/dtype.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// Reads `key=value` pairs separated by commas. Keys: layers, hidden, heads (these three are
/// needed), kv-heads, head-dim, ffn, vocab, context, tied (0 or 1), window (positions that layers
/// see), full-every (of so many layers the last sees everything). Throws
/// Error(kInvalidArgument) that names the key at fault.
ModelConfig parse_shape(std::string_view text);

/// Bytes of all weights of a decoder of this shape with matrices of `type` and norms in f32.
std::size_t estimate_weights_bytes(const ModelConfig& config, DType type);

}  // namespace sluice
