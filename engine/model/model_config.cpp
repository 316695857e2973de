#include "engine/model/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"
#include "engine/model/architectures.hpp"
#include "engine/model/encoder_config.hpp"
#include "engine/model/layer_options.hpp"
#include "engine/model/metadata_reader.hpp"

namespace sluice {
namespace {

// Limits far above every published model; they keep all products of sizes inside 32 bits.
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxHidden = 1 << 20;
constexpr std::int64_t kMaxHeads = 1 << 14;
constexpr std::int64_t kMaxHeadDim = 1 << 14;
constexpr std::int64_t kMaxFfn = 1 << 24;
constexpr std::int64_t kMaxExperts = 1 << 12;
constexpr std::int64_t kMaxPositions = std::numeric_limits<Position>::max();
constexpr std::int64_t kMaxVocab = 1 << 26;

const Architecture& find_architecture(const ModelSource& source) {
  const std::string& wanted = source.require_string("general.architecture");
  std::vector<std::string_view> known;
  for (const Architecture& architecture : architectures()) {
    if (architecture.name == wanted) return architecture;
    known.push_back(architecture.name);
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} holds a model of the architecture {}, which this build can't run; "
                          "it runs {}.",
                          source.path().string(), quote_text(wanted), fmt::join(known, ", ")));
}

/// Reads the keys of one model, checks each on its own and against the others.
class ConfigReader {
 public:
  ConfigReader(const ModelSource& source, const Architecture& architecture)
      : architecture_(architecture), keys_(source, std::string(architecture.name)) {}

  ModelConfig read() {
    config_.architecture = architecture_.name;
    config_.options = architecture_.options;
    config_.name = read_name();
    read_sizes();
    read_heads();
    config_.norm_epsilon = read_epsilon();
    read_experts();
    read_scales();
    read_block_form();
    if (!architecture_.encoder) read_rope_and_windows(keys_, architecture_, config_);
    config_.vocab_size = read_vocab_size();
    config_.tied_embeddings = source().find_tensor("output.weight") == nullptr;
    if (architecture_.encoder) read_encoder(keys_, config_);
    return config_;
  }

 private:
  const ModelSource& source() const { return keys_.source(); }

  std::string read_name() const {
    const std::string* name = source().get_string("general.name");
    return name != nullptr && !name->empty() ? *name : source().path().stem().string();
  }

  void read_sizes() {
    config_.num_layers = keys_.require_size("block_count", kMaxLayers);
    if (static_cast<std::size_t>(config_.num_layers) > source().tensors().size()) {
      keys_.corrupt(fmt::format("{} is {}, but the file holds only {} tensors",
                                keys_.key("block_count"), config_.num_layers,
                                source().tensors().size()));
    }
    config_.hidden_size = keys_.require_size("embedding_length", kMaxHidden);
    config_.ffn_size = keys_.require_size("feed_forward_length", kMaxFfn);
    config_.context_length = keys_.require_size("context_length", kMaxPositions);
  }

  void read_heads() {
    config_.num_heads = keys_.require_size("attention.head_count", kMaxHeads);
    config_.num_kv_heads =
        keys_.optional_size("attention.head_count_kv", kMaxHeads).value_or(config_.num_heads);
    if (config_.num_heads % config_.num_kv_heads != 0) {
      keys_.corrupt(fmt::format("{} heads can't share {} key/value heads evenly ({}, {})",
                                config_.num_heads, config_.num_kv_heads,
                                keys_.key("attention.head_count"),
                                keys_.key("attention.head_count_kv")));
    }
    config_.head_dim = read_head_dim();
  }

  std::int32_t read_head_dim() const {
    const auto given = keys_.optional_size("attention.key_length", kMaxHeadDim);
    if (!given && config_.hidden_size % config_.num_heads != 0) {
      keys_.corrupt(fmt::format("{} heads do not divide the embedding length {}", config_.num_heads,
                                config_.hidden_size));
    }
    const std::int32_t head_dim = given.value_or(config_.hidden_size / config_.num_heads);
    if (head_dim > kMaxHeadDim)
      keys_.corrupt(fmt::format("a head of {} elements is too long", head_dim));
    const auto value_length = keys_.optional_size("attention.value_length", kMaxHeadDim);
    if (value_length && *value_length != head_dim) {
      keys_.unsupported(
          fmt::format("keys have {} elements a head and values {}; this build runs "
                      "models where both are equal",
                      head_dim, *value_length));
    }
    return head_dim;
  }

  float read_epsilon() const {
    const std::string_view name = config_.options.norm == NormKind::kRms
                                      ? "attention.layer_norm_rms_epsilon"
                                      : "attention.layer_norm_epsilon";
    const double epsilon = source().require_float(keys_.key(name));
    if (!(epsilon >= 0.0 && epsilon < 1.0))
      keys_.corrupt(fmt::format("{} is {}, not a small number", keys_.key(name), epsilon));
    return static_cast<float>(epsilon);
  }

  void read_experts() {
    if (source().get_int(keys_.key("expert_count")).value_or(0) == 0) return;
    ExpertConfig& experts = config_.experts;
    experts.count = keys_.require_size("expert_count", kMaxExperts);
    experts.used = keys_.require_size("expert_used_count", experts.count);
    experts.ffn_size =
        keys_.optional_size("expert_feed_forward_length", kMaxFfn).value_or(config_.ffn_size);
    if (source().find_tensor("blk.0.ffn_gate_inp_shexp.weight") != nullptr) {
      experts.shared_ffn_size = keys_.optional_size("expert_shared_feed_forward_length", kMaxFfn)
                                    .value_or(config_.ffn_size);
    }
    experts.weights = architecture_.expert_weights;
    if (const auto divided = keys_.optional_flag("expert_weights_norm");
        divided && experts.weights != ExpertWeights::kSoftmaxOfChosen)
      experts.weights = *divided ? ExpertWeights::kShareOfChosen : ExpertWeights::kShareOfAll;
  }

  void read_scales() {
    DecoderOptions& o = config_.options;
    const auto hidden = static_cast<float>(config_.hidden_size);
    if (architecture_.scaled_embedding) o.embedding_scale = std::sqrt(hidden);
    if (architecture_.layers_with_wide_scale == config_.num_layers)
      o.attention_scale = 1.0F / std::sqrt(hidden / static_cast<float>(config_.num_heads));
    constexpr double kLeast = 1e-6;
    constexpr double kLargest = 1e6;
    const auto read = [&](std::string_view name, float& value) {
      // Converters write 0 for "unchanged".
      if (source().get_float(keys_.key(name)).value_or(0.0) == 0.0) return;
      value = *keys_.optional_number(name, kLeast, kLargest);
    };
    read("embedding_scale", o.embedding_scale);
    read("residual_scale", o.residual_scale);
    read("attention.scale", o.attention_scale);
    read("logit_scale", o.logit_scale);
    if (architecture_.logit_scale_divides) o.logit_scale = 1.0F / o.logit_scale;
    read("attn_logit_softcapping", o.attention_softcap);
    read("final_logit_softcapping", o.final_softcap);
  }

  void read_block_form() {
    DecoderOptions& o = config_.options;
    if (source().get_bool("sluice.rope_halves").value_or(false))
      o.rope_layout = RopeLayout::kHalves;
    if (architecture_.parallel_key)
      o.parallel_block = keys_.optional_flag("use_parallel_residual").value_or(true);
    if (architecture_.parallel_without_ffn_norm &&
        source().find_tensor("blk.0.ffn_norm.weight") == nullptr)
      o.parallel_block = o.shared_norm = true;
    // Falcon 40B: attention has a norm of its own.
    if (o.shared_norm && source().find_tensor("blk.0.attn_norm_2.weight") != nullptr)
      o.shared_norm = false;
  }

  std::int32_t read_vocab_size() const {
    const TensorView* embedding = source().find_tensor("token_embd.weight");
    if (embedding == nullptr)
      keys_.corrupt("the tensor token_embd.weight is missing (a file with a vocabulary only?)");
    if (embedding->shape.size() != 2 || embedding->shape[1] > kMaxVocab) {
      keys_.corrupt(
          fmt::format("the tensor token_embd.weight has the shape [{}] instead of two "
                      "dimensions, embedding length and vocabulary",
                      fmt::join(embedding->shape, ", ")));
    }
    const std::int64_t rows = embedding->shape[1];
    const std::vector<std::string>* tokens = source().get_strings("tokenizer.ggml.tokens");
    if (tokens != nullptr && tokens->size() != static_cast<std::size_t>(rows)) {
      keys_.corrupt(fmt::format("the vocabulary has {} tokens, but token_embd.weight has {} rows",
                                tokens->size(), rows));
    }
    return static_cast<std::int32_t>(rows);
  }

  const Architecture& architecture_;
  MetadataReader keys_;
  ModelConfig config_;
};

}  // namespace

Position ModelConfig::widest_window() const {
  Position widest = 0;
  for (std::int32_t i = 0; i < num_layers; ++i) {
    if (window(i) == 0 || layer(i).keep_first > 0) return 0;
    widest = std::max(widest, window(i));
  }
  return widest;
}

ModelConfig read_model_config(const ModelSource& source) {
  return ConfigReader(source, find_architecture(source)).read();
}

}  // namespace sluice
