// The options that say how K and V are stored, shared by every command with a KV cache.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/kv/kv_layout.hpp"
#include "engine/model/kv_types.hpp"

namespace sluice::app {

struct KvOptions {
  std::string both;   ///< --kv-type, "f16" or "q8_0/f16"
  std::string key;    ///< --kv-type-k
  std::string value;  ///< --kv-type-v
  bool value_int8 = false;
  std::vector<std::string> layers;  ///< --kv-type-layer
  Position budget = 0;              ///< --kv-budget; 0: none
  std::vector<std::string> budget_layers;
  std::string budget_policy = "trim";
  Position keep_first = 4;

  /// `this` must outlive the parsing.
  void add_to(CLI::App& command, const std::string& group);

  /// Throws Error(kInvalidArgument) that names the option at fault.
  KvTypes finish() const;
  KvBudget finish_budget() const;
};

}  // namespace sluice::app
