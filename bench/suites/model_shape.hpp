// Shapes of models to measure with: no weights, only sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sluice::bench {

/// A llama-like decoder: RMS norms, rotary positions, gated feed-forward part.
struct ModelShape {
  std::string name;
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t ffn = 0;
  std::int32_t vocab = 0;
  std::int32_t context = 8192;
  bool tied = true;

  /// Weights of all matrices, the embedding counted once when tied.
  std::int64_t parameters() const;
  /// Weights that every token is multiplied with; the head only for sampled ones.
  std::int64_t layer_weights() const;
};

std::span<const ModelShape> preset_shapes();

/// A preset by name, or a list of all sizes: "layers=4,hidden=256,heads=4,kv=2,dim=64,ffn=1024,
/// vocab=1000" with, if wanted, ",context=2048,tied=0". Throws Error(kInvalidArgument).
ModelShape parse_shape(std::string_view text);

}  // namespace sluice::bench
