#include "engine/formats/hf_rope.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

constexpr double kDefaultBase = 10000.0;
constexpr double kPi = 3.14159265358979323846;

/// What holds for the layers that see everything, and for those with a window.
struct RopeSettings {
  std::optional<element> full;
  std::optional<element> sliding;
};

class RopeReader {
 public:
  RopeReader(const HfConfigFile& config, const HfFamily& family, std::int64_t head_dim,
             std::int64_t context_length, HfMetadataWriter& out)
      : config_(config),
        family_(family),
        head_dim_(head_dim),
        context_length_(context_length),
        out_(out) {}

  void read() {
    const RopeSettings settings = find_settings();
    const auto theta = config_.number({"rope_theta", "rotary_emb_base"});
    base_ = base_of(settings.full, theta.value_or(kDefaultBase));
    out_.set_number("rope.freq_base", base_);
    read_dimensions(settings.full);
    if (settings.full) read_scaling(*settings.full);
    read_local_base(settings);
  }

 private:
  RopeSettings find_settings() const {
    RopeSettings settings;
    settings.full = member(config_.text_part(), "rope_parameters");
    if (!settings.full) settings.full = member(config_.text_part(), "rope_scaling");
    if (!settings.full) return settings;
    if (!settings.full->is_object()) config_.corrupt("the rope settings are not an object");
    const auto by_layer = member(*settings.full, "full_attention");
    if (by_layer) {
      settings.sliding = member(*settings.full, "sliding_attention");
      settings.full = by_layer;
    }
    return settings;
  }

  double base_of(const std::optional<element>& settings, double otherwise) const {
    if (!settings) return otherwise;
    return config_.number_in(*settings, {"rope_theta"}).value_or(otherwise);
  }

  void read_dimensions(const std::optional<element>& settings) {
    auto part = config_.number({"partial_rotary_factor", "rotary_pct"});
    if (!part && settings) part = config_.number_in(*settings, {"partial_rotary_factor"});
    if (part && !(*part > 0.0 && *part <= 1.0)) {
      config_.corrupt(fmt::format("a part of {} of each head can't turn", *part));
    }
    dims_ = part ? static_cast<std::int64_t>(*part * static_cast<double>(head_dim_)) : head_dim_;
    out_.set_integer("rope.dimension_count", dims_);
  }

  void read_scaling(const element& settings) {
    const std::string_view type =
        text_member(settings, "rope_type").value_or(text_member(settings, "type").value_or(""));
    // "dynamic" changes nothing within the context that the model was made for.
    if (type.empty() || type == "default" || type == "dynamic") return;
    if (type == "linear") return read_linear(settings);
    if (type == "llama3") return read_llama3(settings);
    if (type == "yarn") return read_yarn(settings);
    if (type == "longrope" || type == "su") return read_longrope(settings);
    config_.unsupported(
        fmt::format("the rope scaling {}; known: default, dynamic, linear, llama3, "
                    "yarn, longrope",
                    quote_text(type)));
  }

  double positive(const element& settings, std::string_view name) const {
    const auto value = config_.number_in(settings, {name});
    if (!value) config_.corrupt(fmt::format("\"{}\" is missing in the rope settings", name));
    if (!(*value > 0.0 && std::isfinite(*value))) {
      config_.corrupt(fmt::format("\"{}\" is {} in the rope settings", name, *value));
    }
    return *value;
  }

  std::int64_t original_context(const element& settings) const {
    auto value = config_.number_in(settings, {"original_max_position_embeddings"});
    if (!value) value = config_.number({"original_max_position_embeddings"});
    const double length = value.value_or(static_cast<double>(context_length_));
    if (!(length >= 1.0 && length <= 1e9)) {
      config_.corrupt(fmt::format("\"original_max_position_embeddings\" is {}", length));
    }
    return static_cast<std::int64_t>(length);
  }

  void read_linear(const element& settings) {
    out_.set("rope.scaling.type", std::string("linear"));
    out_.set_number("rope.scaling.factor", positive(settings, "factor"));
  }

  /// Llama 3: pairs that turn slowly are slowed down by the factor, fast ones are left alone,
  /// those between are blended. GGUF holds the resulting divisor of each pair. Source: the Llama
  /// 3.1 reference code, apply_scaling.
  void read_llama3(const element& settings) {
    const double factor = positive(settings, "factor");
    const double low = positive(settings, "low_freq_factor");
    const double high = positive(settings, "high_freq_factor");
    const auto original = static_cast<double>(original_context(settings));
    if (high <= low) config_.corrupt("\"high_freq_factor\" is not above \"low_freq_factor\"");
    std::vector<float> divisors;
    for (std::int64_t i = 0; i < dims_ / 2; ++i) {
      const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(dims_);
      const double wavelength = 2.0 * kPi * std::pow(base_, exponent);
      double divisor = 1.0;
      if (wavelength > original / low) {
        divisor = factor;
      } else if (wavelength >= original / high) {
        const double smooth = (original / wavelength - low) / (high - low);
        divisor = 1.0 / ((1.0 - smooth) / factor + smooth);
      }
      divisors.push_back(static_cast<float>(divisor));
    }
    out_.add_vector("rope_freqs.weight", std::move(divisors));
  }

  void read_yarn(const element& settings) {
    const double factor = positive(settings, "factor");
    for (const auto& [name, usual] : {std::pair("beta_fast", 32.0), std::pair("beta_slow", 1.0)}) {
      const double value = config_.number_in(settings, {name}).value_or(usual);
      if (value != usual) out_.set_number(fmt::format("rope.scaling.yarn_{}", name), value);
    }
    // What readers take when nothing is said (Peng et al. 2023, YaRN, section 3.4).
    const double usual = 0.1 * std::log(factor) + 1.0;
    const auto attention = config_.number_in(settings, {"attention_factor"});
    if (attention && std::abs(*attention - usual) > 1e-4) {
      config_.unsupported(fmt::format("yarn with attention_factor {}", *attention));
    }
    if (config_.number_in(settings, {"mscale", "mscale_all_dim"})) {
      config_.unsupported("yarn with mscale");
    }
    out_.set("rope.scaling.type", std::string("yarn"));
    out_.set_number("rope.scaling.factor", factor);
    out_.set_integer("rope.scaling.original_context_length", original_context(settings));
  }

  void read_longrope(const element& settings) {
    const std::int64_t original = original_context(settings);
    out_.set("rope.scaling.type", std::string("longrope"));
    out_.set_integer("rope.scaling.original_context_length", original);
    const double stretch = static_cast<double>(context_length_) / static_cast<double>(original);
    double attention = 1.0;
    if (stretch > 1.0) {
      attention = std::sqrt(1.0 + std::log(stretch) / std::log(static_cast<double>(original)));
    }
    attention = config_.number_in(settings, {"attention_factor"}).value_or(attention);
    out_.set_number("rope.scaling.attn_factor", attention);
    add_factors(settings, "long_factor", "rope_factors_long.weight");
    add_factors(settings, "short_factor", "rope_factors_short.weight");
  }

  void add_factors(const element& settings, std::string_view name, std::string tensor) {
    const auto values = config_.numbers(settings, name);
    if (!values || values->size() != static_cast<std::size_t>(dims_ / 2)) {
      config_.corrupt(fmt::format("\"{}\" does not hold {} numbers", name, dims_ / 2));
    }
    std::vector<float> factors;
    for (const double value : *values) factors.push_back(static_cast<float>(value));
    out_.add_vector(std::move(tensor), std::move(factors));
  }

  /// Layers with a window may turn at another base; readers of gemma3 files assume 10000.
  void read_local_base(const RopeSettings& settings) {
    const bool gemma3 = family_.architecture == "gemma3";
    double local = config_.number({"rope_local_base_freq"}).value_or(gemma3 ? kDefaultBase : base_);
    if (settings.sliding) {
      const std::string_view type = text_member(*settings.sliding, "rope_type").value_or("default");
      if (type != "default") {
        config_.unsupported(
            fmt::format("the rope scaling {} in layers with a window", quote_text(type)));
      }
      local = base_of(settings.sliding, local);
    }
    if (local == (gemma3 ? kDefaultBase : base_)) return;
    if (!gemma3) config_.unsupported(fmt::format("rope base {} in layers with a window", local));
    out_.set_number("rope.freq_base_swa", local);
  }

  const HfConfigFile& config_;
  const HfFamily& family_;
  std::int64_t head_dim_;
  std::int64_t context_length_;
  HfMetadataWriter& out_;
  double base_ = kDefaultBase;
  std::int64_t dims_ = 0;
};

}  // namespace

void read_hf_rope(const HfConfigFile& config, const HfFamily& family, std::int64_t head_dim,
                  std::int64_t context_length, HfMetadataWriter& out) {
  RopeReader(config, family, head_dim, context_length, out).read();
}

}  // namespace sluice
