// Shape and options of a decoder, read from a model's metadata and checked against itself.
//
// One decoder graph runs every architecture: it looks at the options below and never at the
// architecture's name. What a name means is written down in architectures.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// How rotary position embedding pairs the elements of a head.
enum class RopeLayout {
  kNeighbours,  ///< (0,1), (2,3), ... (GGUF files of the llama architecture)
  kHalves,      ///< (i, i + n/2)
};

enum class RopeScaling {
  kNone,
  kLinear,    ///< positions are divided by `factor`
  kYarn,      ///< slow pairs as kLinear, fast ones unchanged, a ramp between (Peng et al. 2023)
  kLongRope,  ///< each pair has a factor, one list for short contexts and one for long ones
};

/// How positions become angles.
struct RopeConfig {
  float base = 10000.0F;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;            ///< how much longer than originally the context is
  Position original_context = 0;  ///< before stretching; yarn and longrope need it
  float magnitude = 1.0F;         ///< cosines and sines are multiplied by it
  float beta_fast = 32.0F;        ///< yarn: pairs that turn more often in the original context stay
  float beta_slow = 1.0F;         ///< yarn: pairs that turn less often are divided by the factor
  bool factor_tensors = true;     ///< divided by rope_freqs.weight and the like, where they exist
};

enum class NormKind {
  kRms,    ///< x / rms(x) * weight
  kLayer,  ///< (x - mean) / deviation * weight + bias
};

enum class Activation {
  kSilu,         ///< x sigmoid(x)
  kGelu,         ///< x Phi(x), by its tanh form
  kRelu,         ///< max(x, 0)
  kClampedSwish  ///< gate capped at 7, times sigmoid(1.702 gate), times (up within 7) + 1
};

/// Norms of query and key vectors before rope.
enum class QkNorm {
  kIfPresent,    ///< each head, where the file has the weights
  kPerHead,      ///< each head
  kWholeVector,  ///< all heads together
};

/// Which biases a file must have; others are used where they exist.
enum class RequiredBiases { kNone, kQkv, kAll };

/// How the scores of a router become the weights of the chosen experts.
enum class ExpertWeights {
  kShareOfAll,      ///< softmax over all experts; the chosen ones keep their share
  kShareOfChosen,   ///< the same, divided by the sum of the chosen ones
  kSoftmaxOfChosen  ///< softmax over the chosen ones' scores
};

/// A mixture of experts in place of the feed-forward block; count 0: none.
struct ExpertConfig {
  std::int32_t count = 0;
  std::int32_t used = 0;             ///< chosen for each token
  std::int32_t ffn_size = 0;         ///< of one expert
  std::int32_t shared_ffn_size = 0;  ///< of the expert that every token uses; 0: none
  ExpertWeights weights = ExpertWeights::kShareOfChosen;
};

/// What architectures differ in.
struct DecoderOptions {
  NormKind norm = NormKind::kRms;
  bool norm_before = true;      ///< attention and feed-forward read a norm of the residual stream
  bool norm_after = false;      ///< their outputs pass a norm before they are added
  bool parallel_block = false;  ///< feed-forward reads what attention reads, not its result
  bool shared_norm = false;     ///< and even the same norm of it
  Activation activation = Activation::kSilu;
  bool gated = true;           ///< activation(gate x) * (up x); else activation(up x)
  bool fused_gate_up = false;  ///< ffn_up holds the gate's rows, then its own
  RequiredBiases required_biases = RequiredBiases::kNone;
  QkNorm qk_norm = QkNorm::kIfPresent;
  bool learned_positions = false;  ///< a vector for each position is added to the embedding
  bool attention_sinks = false;    ///< one more logit in each head's softmax
  RopeLayout rope_layout = RopeLayout::kHalves;
  std::string_view ffn_norm_name = "ffn_norm";

  float embedding_scale = 1.0F;    ///< of the token embedding
  float residual_scale = 1.0F;     ///< of what is added to the residual stream
  float attention_scale = 0.0F;    ///< of q . k; 0: 1 / sqrt(head_dim)
  float logit_scale = 1.0F;        ///< logits are multiplied by it
  float attention_softcap = 0.0F;  ///< scores become cap * tanh(score / cap); 0: unchanged
  float final_softcap = 0.0F;      ///< the same for logits
};

/// The encoder of an encoder-decoder model (Raffel et al. 2020, T5). Its layers have the sizes and
/// options of the decoder's; attention sees the whole input, and each layer of the decoder has a
/// cross-attention to what the encoder gives.
struct EncoderConfig {
  std::int32_t num_layers = 0;  ///< 0: there is no encoder
  Position max_input = 0;       ///< tokens of the longest input
  TokenId decoder_start = 0;    ///< what the decoder reads first
};

/// Scores of attention get a bias that follows from the distance of the two positions: one value
/// for each head and bucket of distances, the same in all layers of a stack.
struct RelativePositions {
  std::int32_t buckets = 0;         ///< 0: no such bias
  std::int32_t max_distance = 128;  ///< from here on all distances share a bucket
};

/// What layers of one model differ in.
struct LayerOptions {
  Position window = 0;      ///< positions that attention sees, the own one included; 0: all
  std::int32_t rope = 0;    ///< index into ModelConfig::ropes; -1: none
  Position keep_first = 0;  ///< with a window: positions below it are seen as well
};

struct ModelConfig {
  std::string architecture;     ///< as the file names it, e.g. "llama"
  std::string name;             ///< for people; falls back to the file name
  std::int32_t num_layers = 0;  ///< of the decoder
  std::int32_t hidden_size = 0;
  std::int32_t num_heads = 0;
  std::int32_t num_kv_heads = 0;  ///< divides num_heads
  std::int32_t head_dim = 0;
  std::int32_t ffn_size = 0;
  std::int32_t vocab_size = 0;
  /// Longest sequence the model was made for; with an encoder, input and output together.
  Position context_length = 0;
  /// Longest sequence that will be run; 0: context_length. Chooses the factors of kLongRope.
  Position context_in_use = 0;
  float norm_epsilon = 1e-5F;
  std::int32_t rope_dims = 0;            ///< leading elements of a head that turn
  std::vector<RopeConfig> ropes = {{}};  ///< [0]: of the layers without a rope of their own
  std::vector<LayerOptions> layers;      ///< one a layer; empty: all alike, by default
  ExpertConfig experts;
  DecoderOptions options;
  EncoderConfig encoder;
  RelativePositions relative_positions;
  bool tied_embeddings = false;  ///< LM head uses the token embedding

  bool has_encoder() const { return encoder.num_layers > 0; }
  std::int32_t kv_dim() const { return num_kv_heads * head_dim; }
  LayerOptions layer(std::int32_t index) const {
    return layers.empty() ? LayerOptions{} : layers[static_cast<std::size_t>(index)];
  }
  /// Positions that attention of a layer sees; 0: all.
  Position window(std::int32_t index) const { return layer(index).window; }
  /// Positions that any layer sees; 0: all. What lies before them is never read again.
  Position widest_window() const;
};

/// Reads and checks the configuration. Throws Error: kUnsupported (unknown architecture, with
/// the list of known ones), kCorrupt (missing key, impossible shape).
ModelConfig read_model_config(const ModelSource& source);

}  // namespace sluice
