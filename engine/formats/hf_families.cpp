#include <fmt/format.h>

#include <array>

#include "engine/base/error.hpp"
#include "engine/formats/hf_encoder.hpp"
#include "engine/formats/hf_family.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

using enum HfTransform;

constexpr HfTensorRule kEmbedding{"embed_tokens", "token_embd"};
constexpr HfTensorRule kLastNorm{"norm", "output_norm"};
constexpr HfTensorRule kHead{"lm_head", "output"};
constexpr HfTensorRule kNorm{"input_layernorm", "attn_norm"};
constexpr HfTensorRule kNormBeforeFfn{"post_attention_layernorm", "ffn_norm"};
constexpr HfTensorRule kQ{"self_attn.q_proj", "attn_q"};
constexpr HfTensorRule kK{"self_attn.k_proj", "attn_k"};
constexpr HfTensorRule kV{"self_attn.v_proj", "attn_v"};
constexpr HfTensorRule kO{"self_attn.o_proj", "attn_output"};
constexpr HfTensorRule kQNorm{"self_attn.q_norm", "attn_q_norm"};
constexpr HfTensorRule kKNorm{"self_attn.k_norm", "attn_k_norm"};
constexpr HfTensorRule kGate{"mlp.gate_proj", "ffn_gate"};
constexpr HfTensorRule kUp{"mlp.up_proj", "ffn_up"};
constexpr HfTensorRule kDown{"mlp.down_proj", "ffn_down"};
constexpr HfTensorRule kGateAndUp{"mlp.gate_up_proj", "ffn_up"};  // gate first, in both forms
// Old folders store what is computed from the configuration.
constexpr HfTensorRule kOldRope{"self_attn.rotary_emb.inv_freq", "", kDrop};

/// llama, mistral, qwen2, qwen3, granite, smollm3, stablelm: what a model lacks is not there.
constexpr std::array kLlamaRules = {kEmbedding, kLastNorm, kHead, kNorm, kNormBeforeFfn,
                                    kQ,         kK,        kV,    kO,    kQNorm,
                                    kKNorm,     kGate,     kUp,   kDown, kOldRope};

constexpr std::array kMixtralRules = {kEmbedding,
                                      kLastNorm,
                                      kHead,
                                      kNorm,
                                      kNormBeforeFfn,
                                      kQ,
                                      kK,
                                      kV,
                                      kO,
                                      kOldRope,
                                      HfTensorRule{"block_sparse_moe.gate", "ffn_gate_inp"},
                                      HfTensorRule{"block_sparse_moe.experts.#.w1", "ffn_gate.#"},
                                      HfTensorRule{"block_sparse_moe.experts.#.w3", "ffn_up.#"},
                                      HfTensorRule{"block_sparse_moe.experts.#.w2", "ffn_down.#"}};

constexpr std::array kQwenExpertRules = {
    kEmbedding,
    kLastNorm,
    kHead,
    kNorm,
    kNormBeforeFfn,
    kQ,
    kK,
    kV,
    kO,
    kQNorm,
    kKNorm,
    kGate,
    kUp,
    kDown,
    HfTensorRule{"mlp.gate", "ffn_gate_inp"},
    HfTensorRule{"mlp.experts.#.gate_proj", "ffn_gate.#"},
    HfTensorRule{"mlp.experts.#.up_proj", "ffn_up.#"},
    HfTensorRule{"mlp.experts.#.down_proj", "ffn_down.#"},
    HfTensorRule{"mlp.shared_expert_gate", "ffn_gate_inp_shexp", kFlatten},
    HfTensorRule{"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    HfTensorRule{"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    HfTensorRule{"mlp.shared_expert.down_proj", "ffn_down_shexp"}};

/// gemma2, gemma3, olmo2, olmo3: norms after attention and FFN (and, in gemma, before the FFN).
constexpr std::array kPostNormRules = {
    kEmbedding,
    kLastNorm,
    kHead,
    kNorm,
    kQ,
    kK,
    kV,
    kO,
    kQNorm,
    kKNorm,
    kGate,
    kUp,
    kDown,
    HfTensorRule{"post_attention_layernorm", "post_attention_norm"},
    HfTensorRule{"pre_feedforward_layernorm", "ffn_norm"},
    HfTensorRule{"post_feedforward_layernorm", "post_ffw_norm"}};

constexpr std::array kGlm4Rules = {kEmbedding,
                                   kLastNorm,
                                   kHead,
                                   kNorm,
                                   kNormBeforeFfn,
                                   kQ,
                                   kK,
                                   kV,
                                   kO,
                                   kGateAndUp,
                                   kDown,
                                   HfTensorRule{"post_self_attn_layernorm", "post_attention_norm"},
                                   HfTensorRule{"post_mlp_layernorm", "post_ffw_norm"}};

constexpr std::array kPhi3Rules = {
    kEmbedding, kLastNorm,      kHead,
    kNorm,      kNormBeforeFfn, HfTensorRule{"self_attn.qkv_proj", "attn_qkv"},
    kO,         kGateAndUp,     kDown,
    kOldRope};

constexpr std::array kStarcoder2Rules = {kEmbedding,
                                         kLastNorm,
                                         kHead,
                                         kNorm,
                                         kNormBeforeFfn,
                                         kQ,
                                         kK,
                                         kV,
                                         kO,
                                         HfTensorRule{"mlp.c_fc", "ffn_up"},
                                         HfTensorRule{"mlp.c_proj", "ffn_down"}};

constexpr std::array kGpt2Rules = {
    HfTensorRule{"wte", "token_embd"},
    HfTensorRule{"wpe", "position_embd"},
    HfTensorRule{"ln_f", "output_norm"},
    kHead,
    HfTensorRule{"ln_1", "attn_norm"},
    HfTensorRule{"attn.c_attn", "attn_qkv", kTranspose},
    HfTensorRule{"attn.c_proj", "attn_output", kTranspose},
    HfTensorRule{"ln_2", "ffn_norm"},
    HfTensorRule{"mlp.c_fc", "ffn_up", kTranspose},
    HfTensorRule{"mlp.c_proj", "ffn_down", kTranspose},
    HfTensorRule{"attn", "", kDrop},               // "attn.bias" is the causal mask
    HfTensorRule{"attn.masked_bias", "", kDrop}};  // and this the value it puts

constexpr std::array kGptNeoxRules = {
    HfTensorRule{"embed_in", "token_embd"},
    HfTensorRule{"final_layer_norm", "output_norm"},
    HfTensorRule{"embed_out", "output"},
    kNorm,
    kNormBeforeFfn,
    HfTensorRule{"attention.query_key_value", "attn_qkv", kSplitHeads},
    HfTensorRule{"attention.dense", "attn_output"},
    HfTensorRule{"mlp.dense_h_to_4h", "ffn_up"},
    HfTensorRule{"mlp.dense_4h_to_h", "ffn_down"},
    HfTensorRule{"attention", "", kDrop},  // masks, as for gpt2
    HfTensorRule{"attention.masked_bias", "", kDrop},
    HfTensorRule{"attention.rotary_emb.inv_freq", "", kDrop}};

constexpr std::array kFalconRules = {HfTensorRule{"word_embeddings", "token_embd"},
                                     HfTensorRule{"ln_f", "output_norm"},
                                     kHead,
                                     kNorm,
                                     HfTensorRule{"self_attention.query_key_value", "attn_qkv"},
                                     HfTensorRule{"self_attention.dense", "attn_output"},
                                     HfTensorRule{"mlp.dense_h_to_4h", "ffn_up"},
                                     HfTensorRule{"mlp.dense_4h_to_h", "ffn_down"}};

// clang-format off: one family a row
constexpr HfFamily kFamilies[] = {
    {.model_type = "llama",
     .class_name = "LlamaForCausalLM",
     .architecture = "llama",
     .rules = kLlamaRules,
     .tied = false,
     .halves = true},
    {.model_type = "mistral",
     .class_name = "MistralForCausalLM",
     .architecture = "llama",
     .rules = kLlamaRules,
     .tied = false,
     .halves = true,
     .window = HfWindow::kAllLayers},
    {.model_type = "mixtral",
     .class_name = "MixtralForCausalLM",
     .architecture = "llama",
     .rules = kMixtralRules,
     .tied = false,
     .halves = true,
     .window = HfWindow::kAllLayers},
    {.model_type = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .architecture = "qwen2",
     .rules = kLlamaRules,
     .tied = false,
     .window = HfWindow::kAskedFor},
    {.model_type = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .architecture = "qwen2moe",
     .rules = kQwenExpertRules,
     .tied = false,
     .window = HfWindow::kAskedFor},
    {.model_type = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .architecture = "qwen3",
     .rules = kLlamaRules,
     .tied = false,
     .window = HfWindow::kAskedFor,
     .default_head_dim = 128},
    {.model_type = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .architecture = "qwen3moe",
     .rules = kQwenExpertRules,
     .tied = false,
     .window = HfWindow::kAskedFor,
     .default_head_dim = 128},
    {.model_type = "gemma",
     .class_name = "GemmaForCausalLM",
     .architecture = "gemma",
     .rules = kLlamaRules,
     .tied = true,
     .norms_less_one = true,
     .activation = HfActivation::kGelu,
     .default_head_dim = 256},
    {.model_type = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .architecture = "gemma2",
     .rules = kPostNormRules,
     .tied = true,
     .norms_less_one = true,
     .window = HfWindow::kTwo,
     .activation = HfActivation::kGelu,
     .default_head_dim = 256},
    {.model_type = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .architecture = "gemma3",
     .rules = kPostNormRules,
     .tied = true,
     .norms_less_one = true,
     .window = HfWindow::kSix,
     .activation = HfActivation::kGelu,
     .default_head_dim = 256},
    {.model_type = "gemma3",
     .class_name = "Gemma3ForConditionalGeneration",
     .architecture = "gemma3",
     .rules = kPostNormRules,
     .tied = true,
     .norms_less_one = true,
     .window = HfWindow::kSix,
     .activation = HfActivation::kGelu,
     .default_head_dim = 256},
    {.model_type = "phi3",
     .class_name = "Phi3ForCausalLM",
     .architecture = "phi3",
     .rules = kPhi3Rules,
     .tied = false,
     .window = HfWindow::kAllLayers},
    {.model_type = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .architecture = "gpt2",
     .rules = kGpt2Rules,
     .tied = true,
     .has_rope = false,
     .activation = HfActivation::kGelu},
    {.model_type = "gpt_neox",
     .class_name = "GPTNeoXForCausalLM",
     .architecture = "gptneox",
     .rules = kGptNeoxRules,
     .tied = false,
     .activation = HfActivation::kGelu},
    {.model_type = "falcon",
     .class_name = "FalconForCausalLM",
     .architecture = "falcon",
     .rules = kFalconRules,
     .tied = true,
     .activation = HfActivation::kGelu},
    {.model_type = "granite",
     .class_name = "GraniteForCausalLM",
     .architecture = "granite",
     .rules = kLlamaRules,
     .tied = false,
     .halves = true},
    {.model_type = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .architecture = "smollm3",
     .rules = kLlamaRules,
     .tied = std::nullopt,
     .halves = true,
     .window = HfWindow::kAskedFor},
    {.model_type = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .architecture = "olmo2",
     .rules = kPostNormRules,
     .tied = false},
    {.model_type = "olmo3",
     .class_name = "Olmo3ForCausalLM",
     .architecture = "olmo2",
     .rules = kPostNormRules,
     .tied = false,
     .window = HfWindow::kListed},
    {.model_type = "stablelm",
     .class_name = "StableLmForCausalLM",
     .architecture = "stablelm",
     .rules = kLlamaRules,
     .tied = false},
    {.model_type = "starcoder2",
     .class_name = "Starcoder2ForCausalLM",
     .architecture = "starcoder2",
     .rules = kStarcoder2Rules,
     .tied = std::nullopt,
     .window = HfWindow::kAllLayers,
     .activation = HfActivation::kGelu},
    {.model_type = "cohere2",
     .class_name = "Cohere2ForCausalLM",
     .architecture = "cohere2",
     .rules = kLlamaRules,
     .tied = true,
     .window = HfWindow::kFour},
    {.model_type = "glm4",
     .class_name = "Glm4ForCausalLM",
     .architecture = "glm4",
     .rules = kGlm4Rules,
     .tied = false,
     .default_head_dim = 128},
    {.model_type = "t5",
     .class_name = "T5ForConditionalGeneration",
     .architecture = "t5",
     .rules = kT5Rules,
     .tied = true,
     .encoder = true},
    {.model_type = "mt5",
     .class_name = "MT5ForConditionalGeneration",
     .architecture = "t5",
     .rules = kT5Rules,
     .tied = true,
     .encoder = true},
};
// clang-format on

const HfFamily* find_by_class(std::string_view class_name) {
  for (const HfFamily& family : kFamilies) {
    if (family.class_name == class_name) return &family;
  }
  return nullptr;
}

const HfFamily* find_by_type(std::string_view model_type) {
  for (const HfFamily& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

[[noreturn]] void refuse(const HfConfigFile& config, std::string_view what, std::string_view name) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} describes a model {} {}, which this build can't run; it runs {}.",
                          config.path().string(), what, quote_text(name), known_hf_families()));
}

}  // namespace

const HfFamily& find_hf_family(const HfConfigFile& config) {
  // The class decides where there is one: "model_type" of a classifier is that of the decoder.
  if (const auto classes = config.texts(config.root(), "architectures");
      classes && !classes->empty()) {
    for (const std::string& name : *classes) {
      if (const HfFamily* family = find_by_class(name)) return *family;
    }
    refuse(config, "of the class", classes->front());
  }
  const auto type = text_member(config.root(), "model_type");
  if (!type) config.corrupt("neither \"architectures\" nor \"model_type\" says what it is");
  if (const HfFamily* family = find_by_type(*type)) return *family;
  refuse(config, "of the type", *type);
}

std::string known_hf_families() {
  std::string list;
  for (const HfFamily& family : kFamilies) {
    if (!list.empty()) list += ", ";
    list += family.model_type;
  }
  return list;
}

}  // namespace sluice
