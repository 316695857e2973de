// The tensors of a decoder, found by name and checked against the configuration.
//
// What a model has or lacks is data here: an absent norm, bias or projection is simply not
// applied. Tensors that a file keeps together (q, k and v; gate and up; experts) are cut apart
// here, so that the decoder knows one form only.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/relative_bias.hpp"
#include "engine/model/rope_table.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {

/// A linear map; `bias` has one value per output or is empty.
struct Projection {
  kernels::WeightMatrix weight;  ///< [out x in], inside the source's mapping
  std::vector<float> bias;

  bool present() const { return weight.data != nullptr; }
};

struct Norm {
  std::vector<float> weight;  ///< empty: not applied
  std::vector<float> bias;    ///< or empty

  bool present() const { return !weight.empty(); }
};

/// down(activation(gate x) * (up x)), or down(activation(up x)) without a gate.
struct FeedForward {
  Projection gate;  ///< hidden -> ffn; or absent
  Projection up;    ///< hidden -> ffn
  Projection down;  ///< ffn -> hidden
};

struct MixtureOfExperts {
  Projection router;                 ///< hidden -> experts: a score for each
  std::vector<FeedForward> experts;  ///< [experts]
  FeedForward shared;                ///< used by every token; absent: `up` is
  Projection shared_gate;            ///< hidden -> 1: its sigmoid scales the shared expert's part
};

/// Attention of the decoder to what the encoder gives: q from the decoder's stream, k and v from
/// the encoder's output.
struct CrossAttention {
  Norm norm;          ///< [hidden], before it
  Projection q;       ///< hidden -> heads * head_dim
  Projection k;       ///< hidden -> kv_dim
  Projection v;       ///< hidden -> kv_dim
  Projection output;  ///< heads * head_dim -> hidden

  bool present() const { return q.present(); }
};

struct LayerWeights {
  Norm attention_norm;          ///< [hidden], before attention
  Projection q;                 ///< hidden -> heads * head_dim
  Projection k;                 ///< hidden -> kv_dim
  Projection v;                 ///< hidden -> kv_dim
  std::vector<float> q_norm;    ///< [head_dim] for each head or [heads * head_dim]; or empty
  std::vector<float> k_norm;    ///< [head_dim] or [kv_dim]; or empty
  std::vector<float> sinks;     ///< [heads]; or empty
  Projection attention_output;  ///< heads * head_dim -> hidden
  Norm attention_post_norm;     ///< [hidden], of attention's output
  CrossAttention cross;         ///< of a decoder with an encoder, after attention; or absent
  Norm ffn_norm;                ///< [hidden], before the feed-forward part
  FeedForward ffn;              ///< when there are no experts
  MixtureOfExperts moe;         ///< `experts` is empty: none
  Norm ffn_post_norm;           ///< [hidden], of the feed-forward part's output
};

struct EncoderWeights {
  std::vector<LayerWeights> layers;  ///< empty: there is no encoder
  Norm output_norm;                  ///< [hidden]
  RelativeBias bias;                 ///< of all its layers
};

struct DecoderWeights {
  std::shared_ptr<const ModelSource> source;  ///< owns the mapping
  kernels::WeightMatrix token_embedding;      ///< [vocab x hidden]; `dequantize` is always set
  kernels::WeightMatrix position_embedding;   ///< [positions x hidden]; or no data
  std::vector<LayerWeights> layers;
  Norm output_norm;              ///< [hidden]
  Projection lm_head;            ///< hidden -> vocab; the embedding when tied
  std::vector<RopeTable> ropes;  ///< as ModelConfig::ropes
  RelativeBias bias;             ///< of the self-attention in all layers; or empty
  EncoderWeights encoder;
  std::size_t bytes = 0;  ///< of all tensors together
};

/// Throws Error that names tensor and file: kCorrupt (missing, wrong shape), kUnsupported
/// (a tensor that this decoder would have to ignore).
DecoderWeights bind_decoder_weights(std::shared_ptr<const ModelSource> source,
                                    const ModelConfig& config);

}  // namespace sluice
