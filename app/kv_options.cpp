#include "app/kv_options.hpp"

#include <tuple>

namespace sluice::app {

void KvOptions::add_to(CLI::App& command, const std::string& group) {
  command
      .add_option("--kv-type", both,
                  "Type of the KV cache: f32, f16, bf16, q8_0 or q4_0, or K/V, e.g. q8_0/f16. "
                  "Default: f16")
      ->group(group);
  auto* k = command.add_option("--kv-type-k", key, "Type of K alone")->group(group);
  auto* v = command.add_option("--kv-type-v", value, "Type of V alone")->group(group);
  command
      .add_flag("--kv-v-int8", value_int8,
                "K in f16, V in 8 bits (f16/q8_0): the safe way to three quarters of the memory, "
                "since errors of K move the attention")
      ->excludes("--kv-type")
      ->excludes(k)
      ->excludes(v)
      ->group(group);
  command
      .add_option("--kv-type-layer", layers,
                  "Type of some layers, e.g. 0-3=f16 or 5=q8_0/f16; may be given several times, "
                  "the last one counts")
      ->group(group);
  command
      .add_option("--kv-budget", budget,
                  "Positions that a sequence holds at most in each layer. Default: no limit")
      ->check(CLI::Range(1, 1 << 24))
      ->group(group);
  command
      .add_option("--kv-budget-layer", budget_layers,
                  "Budget of some layers, e.g. 0-3=512; may be given several times")
      ->group(group);
  command
      .add_option("--kv-budget-policy", budget_policy,
                  "What becomes of longer sequences. trim: layers see the first positions and the "
                  "recent ones. refuse: there are none")
      ->capture_default_str()
      ->check(CLI::IsMember({"trim", "refuse"}))
      ->group(group);
  command
      .add_option("--kv-keep-first", keep_first,
                  "Positions at the beginning that trimming leaves, part of the budget")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->group(group);
}

KvBudget KvOptions::finish_budget() const {
  KvBudget result;
  if (budget > 0) result.layers.push_back({.positions = budget});
  for (const std::string& text : budget_layers)
    result.layers.push_back(parse_kv_layer_budget(text, "--kv-budget-layer"));
  result.policy = budget_policy == "refuse" ? KvBudgetPolicy::kRefuse : KvBudgetPolicy::kTrim;
  result.keep_first = keep_first;
  return result;
}

KvTypes KvOptions::finish() const {
  KvTypes types;
  if (!both.empty()) std::tie(types.type_k, types.type_v) = parse_kv_types(both, "--kv-type");
  if (value_int8) types.type_v = DType::kQ8_0;
  if (!key.empty()) types.type_k = parse_kv_type(key, "--kv-type-k");
  if (!value.empty()) types.type_v = parse_kv_type(value, "--kv-type-v");
  for (const std::string& text : layers)
    types.layers.push_back(parse_kv_layer_types(text, "--kv-type-layer"));
  return types;
}

}  // namespace sluice::app
