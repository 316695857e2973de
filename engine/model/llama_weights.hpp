// The tensors of a llama-family decoder, found by name and checked against the configuration.
//
// One decoder graph serves the family; what a model has or lacks is data here: an empty bias or
// norm is simply not applied.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {

/// A linear map; `bias` has one value per output or is empty.
struct Projection {
  kernels::WeightMatrix weight;  ///< [out x in], inside the source's mapping
  std::vector<float> bias;
};

struct LayerWeights {
  std::vector<float> attention_norm;  ///< [hidden]
  Projection q;                       ///< hidden -> heads * head_dim
  Projection k;                       ///< hidden -> kv_dim
  Projection v;                       ///< hidden -> kv_dim
  std::vector<float> q_norm;          ///< [head_dim], for each head before rope; or empty
  std::vector<float> k_norm;          ///< likewise
  Projection attention_output;        ///< heads * head_dim -> hidden
  std::vector<float> ffn_norm;        ///< [hidden]
  Projection gate;                    ///< hidden -> ffn
  Projection up;                      ///< hidden -> ffn
  Projection down;                    ///< ffn -> hidden
};

struct LlamaWeights {
  std::shared_ptr<const ModelSource> source;  ///< owns the mapping
  kernels::WeightMatrix token_embedding;      ///< [vocab x hidden]; `dequantize` is always set
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;        ///< [hidden]
  Projection lm_head;                    ///< hidden -> vocab; the embedding when tied
  std::vector<double> rope_frequencies;  ///< [rope_dims / 2], radians per position
  std::size_t bytes = 0;                 ///< of all tensors together
};

/// Throws Error that names tensor and file: kCorrupt (missing, wrong shape), kUnsupported
/// (a tensor that this decoder would have to ignore).
LlamaWeights bind_llama_weights(std::shared_ptr<const ModelSource> source,
                                const ModelConfig& config);

}  // namespace sluice
