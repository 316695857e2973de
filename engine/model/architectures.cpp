#include "engine/model/architectures.hpp"

#include <array>

namespace sluice {
namespace {

/// Norms with mean and bias, an ungated feed-forward block with GELU: GPT-2 and what followed it.
constexpr DecoderOptions gpt_options() {
  DecoderOptions o;
  o.norm = NormKind::kLayer;
  o.activation = Activation::kGelu;
  o.gated = false;
  return o;
}

constexpr DecoderOptions with_neighbours() {
  DecoderOptions o;
  o.rope_layout = RopeLayout::kNeighbours;
  return o;
}

constexpr Architecture llama() {
  return {"llama", with_neighbours()};
}

constexpr Architecture qwen2() {
  Architecture a{"qwen2"};
  a.options.required_biases = RequiredBiases::kQkv;
  return a;
}

constexpr Architecture qwen2moe() {
  Architecture a{"qwen2moe", qwen2().options};
  a.expert_weights = ExpertWeights::kShareOfAll;
  return a;
}

constexpr Architecture qwen3(std::string_view name) {
  Architecture a{name};
  a.options.qk_norm = QkNorm::kPerHead;
  return a;
}

constexpr Architecture gemma() {
  Architecture a{"gemma"};
  a.options.activation = Activation::kGelu;
  a.scaled_embedding = true;
  return a;
}

constexpr Architecture gemma2() {
  Architecture a = gemma();
  a.name = "gemma2";
  a.options.norm_after = true;
  a.options.attention_softcap = 50.0F;
  a.options.final_softcap = 30.0F;
  a.window_period = 2;
  a.default_window = 4096;
  a.layers_with_wide_scale = 46;  // the 27B model
  return a;
}

constexpr Architecture gemma3() {
  Architecture a = gemma();
  a.name = "gemma3";
  a.options.norm_after = true;
  a.options.qk_norm = QkNorm::kPerHead;
  a.window_period = 6;
  a.window_rope = WindowRope::kOwnBase;
  a.layers_with_wide_scale = 62;  // the 27B model
  return a;
}

constexpr Architecture phi3() {
  Architecture a{"phi3"};
  a.options.fused_gate_up = true;
  return a;
}

constexpr Architecture gpt2() {
  Architecture a{"gpt2", gpt_options()};
  a.options.required_biases = RequiredBiases::kAll;
  a.options.learned_positions = true;
  return a;
}

constexpr Architecture gptneox() {
  Architecture a{"gptneox", gpt_options()};
  a.options.required_biases = RequiredBiases::kAll;
  a.options.parallel_block = true;
  a.parallel_key = true;
  return a;
}

constexpr Architecture falcon() {
  Architecture a{"falcon", gpt_options()};
  a.options.parallel_block = true;
  a.options.shared_norm = true;
  return a;
}

constexpr Architecture starcoder2() {
  Architecture a{"starcoder2", gpt_options()};
  a.options.required_biases = RequiredBiases::kAll;
  return a;
}

constexpr Architecture stablelm() {
  Architecture a{"stablelm"};
  a.options.norm = NormKind::kLayer;
  a.parallel_without_ffn_norm = true;
  return a;
}

/// OLMo 2; with a window also OLMo 3.
constexpr Architecture olmo2() {
  Architecture a{"olmo2"};
  a.options.norm_before = false;
  a.options.norm_after = true;
  a.options.qk_norm = QkNorm::kWholeVector;
  a.window_period = 4;
  a.window_rope = WindowRope::kUnscaled;
  return a;
}

constexpr Architecture cohere2() {
  Architecture a{"cohere2", with_neighbours()};
  a.options.norm = NormKind::kLayer;
  a.options.parallel_block = true;
  a.options.shared_norm = true;
  a.window_period = 4;
  a.rope_in_windows_only = true;
  return a;
}

constexpr Architecture glm4() {
  Architecture a{"glm4", with_neighbours()};
  a.options.norm_after = true;
  a.options.fused_gate_up = true;
  return a;
}

constexpr Architecture granite() {
  Architecture a{"granite", with_neighbours()};
  a.logit_scale_divides = true;
  return a;
}

constexpr Architecture smollm3() {
  Architecture a{"smollm3", with_neighbours()};
  a.no_rope_period = 4;
  return a;
}

constexpr Architecture gpt_oss() {
  Architecture a{"gpt-oss"};
  a.options.activation = Activation::kClampedSwish;
  a.options.required_biases = RequiredBiases::kAll;
  a.options.attention_sinks = true;
  a.options.ffn_norm_name = "post_attention_norm";
  a.window_period = 2;
  a.expert_weights = ExpertWeights::kSoftmaxOfChosen;
  return a;
}

constexpr Architecture t5() {
  Architecture a{"t5"};
  a.options.attention_scale = 1.0F;
  a.encoder = true;
  return a;
}

constexpr std::array kArchitectures{
    llama(),  qwen2(),   qwen2moe(), qwen3("qwen3"), qwen3("qwen3moe"), gemma(),    gemma2(),
    gemma3(), phi3(),    gpt2(),     falcon(),       gptneox(),         stablelm(), starcoder2(),
    olmo2(),  cohere2(), glm4(),     granite(),      smollm3(),         gpt_oss(),  t5()};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

}  // namespace sluice
