#include "engine/formats/hf_tensor_names.hpp"

#include <algorithm>
#include <array>

namespace sluice {
namespace {

/// Longest first. What a checkpoint puts before the names depends on the class it was saved from.
constexpr std::array<std::string_view, 6> kPrefixes = {"model.language_model.",
                                                       "language_model.model.",
                                                       "language_model.",
                                                       "transformer.",
                                                       "gpt_neox.",
                                                       "model."};

/// Parts of models for pictures, which text does not pass through.
constexpr std::array<std::string_view, 4> kOtherParts = {"vision_tower.", "multi_modal_projector.",
                                                         "model.vision_tower.",
                                                         "model.multi_modal_projector."};

constexpr std::array<std::string_view, 2> kLayerLists = {"layers.", "h."};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string_view leading_digits(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  return text.substr(0, static_cast<std::size_t>(end - text.begin()));
}

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

/// Takes "layers.N." off the front of `name`; gives N's digits, or nothing outside layers.
std::string_view take_layer(std::string_view& name) {
  for (const std::string_view list : kLayerLists) {
    if (!name.starts_with(list)) continue;
    const std::string_view digits = leading_digits(name.substr(list.size()));
    const std::size_t end = list.size() + digits.size();
    if (digits.empty() || digits.size() > 9 || end >= name.size() || name[end] != '.') continue;
    name.remove_prefix(end + 1);
    return digits;
  }
  return {};
}

/// Takes ".weight" or ".bias" off the end of `name`.
std::string_view take_suffix(std::string_view& name) {
  for (const std::string_view suffix : {".weight", ".bias"}) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    return suffix;
  }
  return {};
}

/// Matches a name against a pattern in which "#" stands for digits; gives them in `number`.
bool matches(std::string_view pattern, std::string_view name, std::string_view& number) {
  const std::size_t mark = pattern.find('#');
  if (mark == std::string_view::npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, mark))) return false;
  number = leading_digits(name.substr(mark));
  return !number.empty() && number.size() <= 9 &&
         name.substr(mark + number.size()) == pattern.substr(mark + 1);
}

std::string gguf_name(const HfTensorRule& rule, std::string_view layer, std::string_view expert,
                      std::string_view suffix) {
  std::string name;
  if (!layer.empty()) name.append("blk.").append(layer).append(".");
  const std::size_t mark = rule.gguf.find('#');
  name += rule.gguf.substr(0, mark);
  if (mark != std::string_view::npos) name.append(expert).append(rule.gguf.substr(mark + 1));
  return name.append(suffix);
}

bool is_global(std::string_view gguf) {
  return gguf.starts_with("token_embd") || gguf.starts_with("position_embd") ||
         gguf.starts_with("output_norm") || gguf == "output";
}

/// The mask of gpt2 is called "attn.bias": only biases are dropped by a rule of that name.
bool applies(const HfTensorRule& rule, std::string_view suffix, bool in_layer) {
  if (rule.transform == HfTransform::kDrop) return in_layer && suffix != ".weight";
  return !suffix.empty() && in_layer != is_global(rule.gguf);
}

HfTransform transform_of(const HfFamily& family, const HfTensorRule& rule,
                         std::string_view suffix) {
  if (suffix == ".bias") {
    return rule.transform == HfTransform::kSplitHeads ? rule.transform : HfTransform::kNone;
  }
  const bool is_norm = rule.gguf.ends_with("_norm");
  return family.norms_less_one && is_norm ? HfTransform::kAddOne : rule.transform;
}

/// The rules hold whole names; "#" is the layer in both forms.
std::optional<HfTensorName> name_with_encoder(const HfFamily& family, std::string_view name) {
  std::string_view rest = name;
  const std::string_view suffix = take_suffix(rest);
  if (suffix != ".weight") return std::nullopt;
  for (const HfTensorRule& rule : family.rules) {
    std::string_view layer;
    if (!matches(rule.hf, rest, layer)) continue;
    if (rule.transform == HfTransform::kDrop) return HfTensorName{{}, HfTransform::kDrop};
    return HfTensorName{gguf_name(rule, {}, layer, suffix), rule.transform};
  }
  return std::nullopt;
}

}  // namespace

std::optional<HfTensorName> hf_tensor_name(const HfFamily& family, std::string_view name) {
  if (family.encoder) return name_with_encoder(family, name);
  for (const std::string_view part : kOtherParts) {
    if (name.starts_with(part)) return HfTensorName{{}, HfTransform::kDrop};
  }
  std::string_view rest = without_prefix(name);
  const std::string_view layer = take_layer(rest);
  const std::string_view suffix = take_suffix(rest);
  for (const HfTensorRule& rule : family.rules) {
    std::string_view expert;
    if (!applies(rule, suffix, !layer.empty()) || !matches(rule.hf, rest, expert)) continue;
    if (rule.transform == HfTransform::kDrop) return HfTensorName{{}, HfTransform::kDrop};
    return HfTensorName{gguf_name(rule, layer, expert, suffix), transform_of(family, rule, suffix)};
  }
  return std::nullopt;
}

}  // namespace sluice
