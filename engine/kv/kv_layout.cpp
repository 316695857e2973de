#include "engine/kv/kv_layout.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "engine/base/error.hpp"
#include "engine/model/encoder_config.hpp"

namespace sluice {
namespace {

void check(const ModelConfig& config, const KvBudget& budget) {
  for (const KvLayerBudget& entry : budget.layers) {
    const bool whole = entry.last_layer == std::numeric_limits<std::int32_t>::max();
    if (entry.first_layer < 0 || entry.first_layer > entry.last_layer ||
        (!whole && entry.last_layer >= config.num_layers)) {
      throw Error(ErrorCode::kInvalidArgument,
                  "The KV budget names layers " + std::to_string(entry.first_layer) + " to " +
                      std::to_string(entry.last_layer) + ", but the model has layers 0 to " +
                      std::to_string(config.num_layers - 1) + ".");
    }
    const Position keep = budget.policy == KvBudgetPolicy::kTrim ? budget.keep_first : 0;
    if (keep < 0 || entry.positions <= keep) {
      throw Error(ErrorCode::kInvalidArgument,
                  "A KV budget of " + std::to_string(entry.positions) +
                      " positions leaves no room beside the first " + std::to_string(keep) +
                      " that are kept; use a larger budget or keep fewer.");
    }
  }
}

/// Does the layer hold more than its budget in a long sequence?
bool exceeds(const ModelConfig& config, std::int32_t layer, Position positions) {
  const Position window = config.window(layer);
  return positions > 0 && (window <= 0 || window > positions);
}

std::optional<std::int32_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

Position KvBudget::of_layer(std::int32_t layer) const {
  const auto entry = std::find_if(layers.rbegin(), layers.rend(), [&](const KvLayerBudget& e) {
    return e.first_layer <= layer && layer <= e.last_layer;
  });
  return entry == layers.rend() ? 0 : entry->positions;
}

ModelConfig with_budget(ModelConfig config, const KvBudget& budget) {
  check(config, budget);
  if (budget.policy != KvBudgetPolicy::kTrim || budget.layers.empty()) return config;
  require_decoder_alone(config, "A KV budget that trims");
  std::vector<LayerOptions> layers;
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    layers.push_back(config.layer(i));
    const Position positions = budget.of_layer(i);
    if (!exceeds(config, i, positions)) continue;
    layers.back().window = positions - budget.keep_first;
    layers.back().keep_first = budget.keep_first;
  }
  config.layers = std::move(layers);
  return config;
}

Position longest_under(const ModelConfig& config, const KvBudget& budget) {
  check(config, budget);
  if (budget.policy != KvBudgetPolicy::kRefuse) return 0;
  Position longest = 0;
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    const Position positions = budget.of_layer(i);
    if (!exceeds(config, i, positions)) continue;
    longest = longest == 0 ? positions : std::min(longest, positions);
  }
  return longest;
}

std::vector<KvLayerGroup> kv_layer_groups(const ModelConfig& config) {
  std::vector<KvLayerGroup> groups;
  for (std::int32_t i = 0; i < std::max(config.num_layers, 1); ++i) {
    KvVisibility sees;
    const LayerOptions layer = config.layer(i);
    // A window as wide as the context hides nothing.
    if (layer.window > 0 && layer.window < config.context_length) {
      sees = {layer.window, layer.keep_first};
    }
    auto group = std::ranges::find(groups, sees, &KvLayerGroup::visibility);
    if (group == groups.end()) {
      const auto place = sees.window == 0 ? groups.begin() : groups.end();
      group = groups.insert(place, {sees, {}});
    }
    group->layers.push_back(i);
  }
  return groups;
}

KvLayerBudget parse_kv_layer_budget(std::string_view text, std::string_view option) {
  const std::size_t equals = text.find('=');
  const std::string_view range = text.substr(0, equals);
  const std::size_t dash = range.find('-');
  const auto first = number(range.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
  const auto positions =
      equals == std::string_view::npos ? std::nullopt : number(text.substr(equals + 1));
  if (!first || !last || !positions) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string(option) +
                    " needs layers and positions such as 0-3=512 or 5=64, not \"" +
                    std::string(text) + "\".");
  }
  return {*first, *last, *positions};
}

}  // namespace sluice
