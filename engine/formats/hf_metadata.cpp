#include "engine/formats/hf_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "engine/formats/hf_encoder.hpp"
#include "engine/formats/hf_metadata_writer.hpp"
#include "engine/formats/hf_rope.hpp"
#include "engine/formats/hf_window.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

// Far above every published model; lists of this length are made before weights are looked at.
constexpr std::int64_t kMaxLayers = 1 << 16;
constexpr std::int64_t kMaxHeadDim = 1 << 16;
constexpr std::int64_t kMaxSize = 4'000'000'000;

class MetadataReader {
 public:
  MetadataReader(const HfConfigFile& config, const HfFamily& family)
      : config_(config), family_(family), out_(metadata_, family.architecture) {}

  HfMetadata read() {
    out_.set_global("general.architecture", std::string(family_.architecture));
    if (family_.encoder) {
      read_hf_encoder(config_, family_, metadata_, out_);
      return std::move(metadata_);
    }
    read_sizes();
    read_heads();
    read_epsilon();
    check_activation();
    read_experts();
    read_scales();
    check_options();
    if (family_.has_rope) read_hf_rope(config_, family_, head_dim_, context_length_, out_);
    if (family_.halves) out_.set_global("sluice.rope_halves", true);
    read_hf_window(config_, family_, metadata_.num_layers, context_length_, out_);
    return std::move(metadata_);
  }

 private:
  std::int64_t size(HfConfigFile::Names names) const {
    return checked(names, config_.require_integer(names));
  }
  std::int64_t size(HfConfigFile::Names names, std::int64_t otherwise) const {
    return checked(names, config_.integer(names).value_or(otherwise));
  }
  std::int64_t checked(HfConfigFile::Names names, std::int64_t value,
                       std::int64_t most = kMaxSize) const {
    if (value < 1 || value > most) {
      config_.corrupt(fmt::format("\"{}\" is {}", *names.begin(), value));
    }
    return value;
  }

  bool is(std::string_view model_type) const { return family_.model_type == model_type; }

  void read_sizes() {
    metadata_.num_layers = size({"num_hidden_layers", "n_layer", "num_layers"});
    checked({"num_hidden_layers"}, metadata_.num_layers, kMaxLayers);
    hidden_ = size({"hidden_size", "n_embd"});
    metadata_.vocab_size = size({"vocab_size"});
    context_length_ = is("falcon") ? size({"max_position_embeddings"}, 2048)
                                   : size({"max_position_embeddings", "n_positions"});
    const bool four_times = is("gpt2") || is("falcon");
    const std::int64_t ffn =
        four_times ? size({"n_inner", "ffn_hidden_size", "intermediate_size"}, 4 * hidden_)
                   : size({"intermediate_size"});
    out_.set_integer("block_count", metadata_.num_layers);
    out_.set_integer("embedding_length", hidden_);
    out_.set_integer("vocab_size", metadata_.vocab_size);
    out_.set_integer("context_length", context_length_);
    out_.set_integer("feed_forward_length", ffn);
  }

  void read_heads() {
    metadata_.num_heads = size({"num_attention_heads", "n_head"});
    const std::int64_t shared = is("falcon") ? 1 : metadata_.num_heads;
    const std::int64_t kv_heads = size({"num_key_value_heads"}, shared);
    if (metadata_.num_heads % kv_heads != 0) {
      config_.corrupt(fmt::format("{} attention heads can't share {} key/value heads evenly",
                                  metadata_.num_heads, kv_heads));
    }
    out_.set_integer("attention.head_count", metadata_.num_heads);
    out_.set_integer("attention.head_count_kv", is("falcon") ? 1 : kv_heads);
    auto head_dim = config_.integer({"head_dim"});
    if (!head_dim && family_.default_head_dim != 0) head_dim = family_.default_head_dim;
    if (!head_dim && hidden_ % metadata_.num_heads != 0) {
      config_.corrupt(fmt::format("{} attention heads do not divide the hidden size {}",
                                  metadata_.num_heads, hidden_));
    }
    head_dim_ =
        checked({"head_dim"}, head_dim.value_or(hidden_ / metadata_.num_heads), kMaxHeadDim);
    if (head_dim_ * metadata_.num_heads == hidden_) return;
    out_.set_integer("attention.key_length", head_dim_);
    out_.set_integer("attention.value_length", head_dim_);
  }

  void read_epsilon() {
    if (const auto rms = config_.number({"rms_norm_eps"})) {
      out_.set_number("attention.layer_norm_rms_epsilon", *rms);
      return;
    }
    out_.set_number(
        "attention.layer_norm_epsilon",
        config_.require_number({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"}));
  }

  void check_activation() const {
    const auto name =
        config_.text({"hidden_activation", "hidden_act", "activation_function", "activation"});
    if (!name) return;
    const bool silu = *name == "silu" || *name == "swish";
    const bool gelu = *name == "gelu" || *name == "gelu_new" || *name == "gelu_pytorch_tanh" ||
                      *name == "gelu_fast";
    if (family_.activation == HfActivation::kSilu ? silu : gelu) return;
    config_.unsupported(
        fmt::format("the activation {} in a {} model", quote_text(*name), family_.model_type));
  }

  void read_experts() {
    const bool qwen = is("qwen2_moe") || is("qwen3_moe");
    if (!qwen && !is("mixtral")) return;
    const std::int64_t experts = size({"num_local_experts", "num_experts"});
    const std::int64_t used = size({"num_experts_per_tok"});
    if (used > experts) config_.corrupt(fmt::format("{} of {} experts are used", used, experts));
    out_.set_integer("expert_count", experts);
    out_.set_integer("expert_used_count", used);
    if (!qwen) return;
    out_.set_integer("expert_feed_forward_length", size({"moe_intermediate_size"}));
    if (is("qwen2_moe")) {
      out_.set_integer("expert_shared_feed_forward_length",
                       size({"shared_expert_intermediate_size"}));
    }
    if (config_.integer({"decoder_sparse_step"}).value_or(1) != 1 ||
        !config_.numbers(config_.text_part(), "mlp_only_layers")
             .value_or(std::vector<double>())
             .empty()) {
      config_.unsupported("experts in some layers only");
    }
    // Whether the chosen experts' weights are divided by their sum; readers know the usual way.
    const bool divided = config_.flag({"norm_topk_prob"}).value_or(false);
    if (divided != is("qwen3_moe")) out_.set("expert_weights_norm", divided);
  }

  void set_number(std::string_view name, std::string_view from) {
    if (const auto value = config_.number({from})) out_.set_number(name, *value);
  }

  void read_scales() {
    if (is("granite")) {
      set_number("embedding_scale", "embedding_multiplier");
      set_number("residual_scale", "residual_multiplier");
      set_number("attention.scale", "attention_multiplier");
      set_number("logit_scale", "logits_scaling");
    }
    if (is("cohere2")) out_.set_number("logit_scale", config_.number({"logit_scale"}).value_or(1));
    if (family_.model_type.starts_with("gemma")) {
      set_number("attn_logit_softcapping", "attn_logit_softcapping");
      set_number("final_logit_softcapping", "final_logit_softcapping");
      const double scalar =
          config_.number({"query_pre_attn_scalar"}).value_or(static_cast<double>(head_dim_));
      if (!(scalar > 0.0)) config_.corrupt("\"query_pre_attn_scalar\" is not positive");
      if (scalar != static_cast<double>(head_dim_)) {
        out_.set_number("attention.scale", 1.0 / std::sqrt(scalar));
      }
    }
  }

  void expect(std::string_view name, bool wanted, bool otherwise) const {
    if (config_.flag({name}).value_or(otherwise) == wanted) return;
    config_.unsupported(fmt::format("\"{}\": {} in a {} model", name, !wanted, family_.model_type));
  }

  /// Options that change the calculation and that no tensor gives away.
  void check_options() {
    if (is("gpt2")) {
      expect("scale_attn_weights", true, true);
      expect("scale_attn_by_inverse_layer_idx", false, false);
    }
    if (is("falcon")) {
      expect("new_decoder_architecture", false, false);
      expect("multi_query", true, true);
      expect("parallel_attn", true, true);
      expect("alibi", false, false);
    }
    if (is("gpt_neox") || is("stablelm")) {
      out_.set("use_parallel_residual",
               config_.flag({"use_parallel_residual"}).value_or(is("gpt_neox")));
    }
    if (is("stablelm")) expect("qk_layernorm", false, false);
    if (is("smollm3")) check_layers_without_rope();
  }

  /// Readers of smollm3 files assume that every fourth layer has no rope.
  void check_layers_without_rope() const {
    constexpr std::int64_t kUsual = 4;
    const auto listed = config_.numbers(config_.text_part(), "no_rope_layers");
    bool usual = config_.integer({"no_rope_layer_interval"}).value_or(kUsual) == kUsual;
    for (std::size_t i = 0; listed && i < listed->size(); ++i) {
      const bool has_rope = (static_cast<std::int64_t>(i) + 1) % kUsual != 0;
      usual = usual && ((*listed)[i] != 0) == has_rope;
    }
    if (!usual) config_.unsupported("other layers without rope than every fourth");
  }

  const HfConfigFile& config_;
  const HfFamily& family_;
  HfMetadata metadata_;
  HfMetadataWriter out_;
  std::int64_t hidden_ = 0;
  std::int64_t head_dim_ = 0;
  std::int64_t context_length_ = 0;
};

}  // namespace

HfMetadata read_hf_metadata(const HfConfigFile& config, const HfFamily& family) {
  return MetadataReader(config, family).read();
}

}  // namespace sluice
