// Shape and options of a decoder, read from a model's metadata and checked against itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/types.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// How rotary position embedding pairs the elements of a head.
enum class RopeLayout {
  kNeighbours,  ///< (0,1), (2,3), ... (GGUF files of the llama architecture)
  kHalves,      ///< (i, i + n/2)
};

struct ModelConfig {
  std::string architecture;  ///< as the file names it, e.g. "llama"
  std::string name;          ///< for people; falls back to the file name
  std::int32_t num_layers = 0;
  std::int32_t hidden_size = 0;
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;  ///< divides num_heads
  std::int32_t head_dim = 0;
  std::int32_t ffn_size = 0;
  std::int32_t vocab_size = 0;
  Position context_length = 0;  ///< longest sequence the model was made for
  float norm_epsilon = 1e-5F;
  float rope_base = 10000.0F;
  std::int32_t rope_dims = 0;       ///< leading elements of a head that turn; at most head_dim
  float rope_linear_factor = 1.0F;  ///< positions are divided by it before they become angles
  RopeLayout rope_layout = RopeLayout::kNeighbours;
  bool tied_embeddings = false;  ///< LM head uses the token embedding

  std::int32_t kv_dim() const { return num_kv_heads * head_dim; }
};

/// Reads and checks the configuration. Throws Error: kUnsupported (unknown architecture, with
/// the list of known ones), kCorrupt (missing key, impossible shape).
ModelConfig read_model_config(const ModelSource& source);

}  // namespace sluice
