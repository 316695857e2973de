// How a model's layers fall into KV groups, and what a budget makes of them.
//
// Worked example: 4 layers of which every second sees 32 positions, a budget of 64 that keeps the
// first 4. Layers 1 and 3 see everything and are trimmed to the first 4 and the last 60
// positions; layers 0 and 2 stay as they are. Two groups; a sequence holds at most 64 positions
// in either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/kv_group.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

enum class KvBudgetPolicy {
  kTrim,    ///< attention sees the first positions and the recent ones; what lies between is freed
  kRefuse,  ///< a sequence may not become longer
};

/// A cap of the positions that a sequence holds in some layers.
struct KvLayerBudget {
  std::int32_t first_layer = 0;
  std::int32_t last_layer = std::numeric_limits<std::int32_t>::max();
  Position positions = 0;
};

/// Of several entries for a layer the last counts. No entries: no budget.
struct KvBudget {
  std::vector<KvLayerBudget> layers{};
  KvBudgetPolicy policy = KvBudgetPolicy::kTrim;
  Position keep_first = 4;  ///< with kTrim, part of the budget

  /// Positions of a layer; 0: no limit.
  Position of_layer(std::int32_t layer) const;
};

/// The model as it runs under a budget: with kTrim layers that would see more have a window. A
/// window that is narrower already stays. Throws Error(kInvalidArgument): a budget without room
/// for a token beside keep_first, layers that the model does not have; Error(kUnsupported): a model
/// with an encoder, whose attention sees everything.
ModelConfig with_budget(ModelConfig config, const KvBudget& budget);

/// Longest sequence that a budget allows; 0: no limit. Throws as with_budget.
Position longest_under(const ModelConfig& config, const KvBudget& budget);

/// Layers that see the same.
struct KvLayerGroup {
  KvVisibility visibility;
  std::vector<std::int32_t> layers;  ///< ascending
};

/// Every layer in one group; first the group that sees everything, if there is one, then in the
/// order of their first layers. At least one group.
std::vector<KvLayerGroup> kv_layer_groups(const ModelConfig& config);

/// "0-3=512" or "5=64". Throws Error(kInvalidArgument), naming `option`.
KvLayerBudget parse_kv_layer_budget(std::string_view text, std::string_view option);

}  // namespace sluice
