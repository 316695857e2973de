#include "engine/model/layer_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

constexpr std::int64_t kMaxPositions = std::numeric_limits<Position>::max();
constexpr float kWindowRopeBase = 10000.0F;

std::optional<float> read_base(const MetadataReader& keys, std::string_view name) {
  return keys.optional_number(name, 1.0, 1e12);
}

RopeScaling scaling_of(const MetadataReader& keys, const std::string& type) {
  if (type == "none") return RopeScaling::kNone;
  if (type == "linear") return RopeScaling::kLinear;
  if (type == "yarn") return RopeScaling::kYarn;
  if (type == "longrope") return RopeScaling::kLongRope;
  keys.unsupported(
      fmt::format("{} is {}, which this build can't apply; it knows none, linear, "
                  "yarn and longrope",
                  keys.key("rope.scaling.type"), quote_text(type)));
}

/// Converters write 0 for "no scaling"; old ones use rope.scale_linear.
float read_factor(const MetadataReader& keys) {
  for (const std::string_view name : {"rope.scaling.factor", "rope.scale_linear"}) {
    const auto factor = keys.optional_number(name, 0.0, 1e6);
    if (factor && *factor != 0.0F) return *factor;
  }
  return 1.0F;
}

/// The scaling of the model; without a type, a factor means linear.
RopeConfig read_rope(const MetadataReader& keys, Position context_length) {
  RopeConfig rope;
  rope.base = read_base(keys, "rope.freq_base").value_or(rope.base);
  const std::string* type = keys.source().get_string(keys.key("rope.scaling.type"));
  rope.scaling = type == nullptr ? RopeScaling::kLinear : scaling_of(keys, *type);
  if (rope.scaling == RopeScaling::kNone) return rope;
  rope.factor = read_factor(keys);
  rope.original_context = keys.optional_size("rope.scaling.original_context_length", kMaxPositions)
                              .value_or(context_length);
  rope.magnitude = keys.optional_number("rope.scaling.attn_factor", 1e-3, 1e3).value_or(1.0F);
  const auto beta = [&](std::string_view name, float& value) {
    value = keys.optional_number(name, 1e-3, 1e6).value_or(value);
  };
  beta("rope.scaling.yarn_beta_fast", rope.beta_fast);
  beta("rope.scaling.yarn_beta_slow", rope.beta_slow);
  return rope;
}

/// For each layer: does it have the window?
std::vector<bool> windowed_layers(const MetadataReader& keys, const Architecture& architecture,
                                  std::int32_t num_layers) {
  constexpr std::string_view kPattern = "attention.sliding_window_pattern";
  std::vector<bool> windowed(static_cast<std::size_t>(num_layers), false);
  if (keys.source().get_bool("sluice.sliding_window_all_layers").value_or(false)) {
    windowed.assign(windowed.size(), true);
    return windowed;
  }
  std::int32_t period = architecture.window_period;
  if (keys.is_int(kPattern)) {
    period = *keys.optional_size(kPattern, 1 << 12);
  } else if (auto flags = keys.optional_flags(kPattern)) {
    if (flags->size() != windowed.size())
      keys.corrupt(fmt::format("{} has {} entries for {} layers", keys.key(kPattern), flags->size(),
                               num_layers));
    return *flags;
  }
  if (period == 0) return windowed;
  for (std::size_t i = 0; i < windowed.size(); ++i)
    windowed[i] = (i + 1) % static_cast<std::size_t>(period) != 0;
  return windowed;
}

/// 0 when there is none.
Position read_window(const MetadataReader& keys, const Architecture& architecture) {
  constexpr std::string_view kWindow = "attention.sliding_window";
  if (keys.source().get_int(keys.key(kWindow)) == 0) return 0;
  return keys.optional_size(kWindow, kMaxPositions).value_or(architecture.default_window);
}

/// The rope of windowed layers as a further entry; its index.
std::int32_t add_window_rope(const MetadataReader& keys, const Architecture& architecture,
                             std::vector<RopeConfig>& ropes) {
  if (architecture.window_rope == WindowRope::kSame) return 0;
  RopeConfig rope;
  rope.base = ropes.front().base;
  rope.factor_tensors = false;
  if (architecture.window_rope == WindowRope::kOwnBase)
    rope.base = read_base(keys, "rope.freq_base_swa").value_or(kWindowRopeBase);
  ropes.push_back(rope);
  return 1;
}

}  // namespace

void read_rope_and_windows(const MetadataReader& keys, const Architecture& architecture,
                           ModelConfig& config) {
  config.rope_dims = keys.optional_size("rope.dimension_count", 1 << 20).value_or(config.head_dim);
  if (config.rope_dims > config.head_dim || config.rope_dims % 2 != 0) {
    keys.corrupt(fmt::format("{} is {}, but must be even and at most the head size {}",
                             keys.key("rope.dimension_count"), config.rope_dims, config.head_dim));
  }
  config.ropes = {read_rope(keys, config.context_length)};
  std::vector<bool> windowed = windowed_layers(keys, architecture, config.num_layers);
  Position window = 0;
  if (std::ranges::find(windowed, true) != windowed.end()) window = read_window(keys, architecture);
  if (window == 0) windowed.assign(windowed.size(), false);
  const std::int32_t window_rope =
      window != 0 ? add_window_rope(keys, architecture, config.ropes) : 0;

  for (std::size_t i = 0; i < windowed.size(); ++i) {
    LayerOptions layer;
    if (windowed[i]) layer = {window, window_rope};
    const auto period = static_cast<std::size_t>(architecture.no_rope_period);
    const bool skipped = period != 0 && (i + 1) % period == 0;
    if (skipped || config.options.learned_positions ||
        (architecture.rope_in_windows_only && !windowed[i]))
      layer.rope = -1;
    config.layers.push_back(layer);
  }
}

}  // namespace sluice
