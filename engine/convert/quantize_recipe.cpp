#include "engine/convert/quantize_recipe.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace sluice {
namespace {

constexpr auto kNone = std::nullopt;

// File types: the numbers that GGUF readers show as the kind of a file.
constexpr QuantizeRecipe kRecipes[] = {
    {"F32", DType::kF32, kNone, kNone, false, 0, "32 bits, exact"},
    {"F16", DType::kF16, kNone, kNone, false, 1, "16 bits"},
    {"BF16", DType::kBF16, kNone, kNone, false, 32, "16 bits with the range of F32"},
    {"Q8_0", DType::kQ8_0, kNone, kNone, false, 7, "8.5 bits; hardly to be told from F16"},
    {"q8-full-embedding", DType::kQ8_0, kNone, kNone, true, 7,
     "Q8_0 with embedding and LM head as they are"},
    {"Q6_K", DType::kQ6_K, kNone, kNone, false, 18, "6.6 bits"},
    {"Q5_K_M", DType::kQ5_K, DType::kQ6_K, DType::kQ6_K, false, 17,
     "5.5 bits, half of attn_v and ffn_down in Q6_K"},
    {"Q5_K_S", DType::kQ5_K, DType::kQ6_K, kNone, false, 16, "5.5 bits"},
    {"Q5_1", DType::kQ5_1, DType::kQ6_K, kNone, false, 9, "6 bits in blocks of 32"},
    {"Q5_0", DType::kQ5_0, DType::kQ6_K, kNone, false, 8, "5.5 bits in blocks of 32"},
    {"Q4_K_M", DType::kQ4_K, DType::kQ6_K, DType::kQ6_K, false, 15,
     "4.5 bits, half of attn_v and ffn_down in Q6_K; a good default"},
    {"Q4_K_S", DType::kQ4_K, DType::kQ6_K, kNone, false, 14, "4.5 bits"},
    {"Q4_1", DType::kQ4_1, DType::kQ6_K, kNone, false, 3, "5 bits in blocks of 32"},
    {"Q4_0", DType::kQ4_0, DType::kQ6_K, kNone, false, 2, "4.5 bits in blocks of 32"},
    {"IQ4_NL", DType::kIQ4_NL, DType::kQ6_K, kNone, false, 25, "4.5 bits, uneven levels"},
    {"Q3_K_M", DType::kQ3_K, DType::kQ6_K, DType::kQ5_K, false, 12,
     "3.4 bits, half of attn_v and ffn_down in Q5_K"},
    {"Q3_K_S", DType::kQ3_K, DType::kQ6_K, kNone, false, 11, "3.4 bits"},
    {"Q2_K", DType::kQ2_K, DType::kQ6_K, DType::kQ4_K, false, 10,
     "2.6 bits, half of attn_v and ffn_down in Q4_K; answers suffer"},
};

/// Names that people use for the mixture that is meant.
struct Alias {
  std::string_view name;
  std::string_view recipe;
};
constexpr Alias kAliases[] = {{"Q5_K", "Q5_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q3_K", "Q3_K_M"}};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Small, or used in a way that spreads every error.
bool stays_exact(const TensorToQuantize& tensor) {
  return tensor.shape.size() < 2 || !tensor.name.ends_with(".weight") ||
         contains(tensor.name, "_norm") || contains(tensor.name, "ffn_gate_inp") ||
         contains(tensor.name, "attn_rel_b") || tensor.name.starts_with("position_embd") ||
         tensor.name.starts_with("rope_");
}

/// Of "blk.3.attn_v.weight", "dec.blk.3.attn_v.weight": 3.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  std::int64_t layer = -1;
  name.remove_prefix(std::min(name.find(kPrefix), name.size()));
  if (name.starts_with(kPrefix)) {
    std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  }
  return layer;
}

/// The first and the last eighth of the layers and every third between.
bool in_sensitive_layer(std::string_view name, std::int64_t num_layers) {
  const std::int64_t layer = layer_of(name);
  const std::int64_t eighth = num_layers / 8;
  return layer < eighth || layer >= 7 * num_layers / 8 || (layer - eighth) % 3 == 2;
}

/// Types with a little more bits and smaller blocks, in turn.
DType smaller_blocks(DType type) {
  switch (type) {
    case DType::kQ6_K:
      return DType::kQ8_0;
    case DType::kQ5_K:
      return DType::kQ5_1;
    case DType::kQ4_K:
      return DType::kQ5_0;
    case DType::kQ3_K:
    case DType::kQ2_K:
      return DType::kQ4_0;
    default:
      return DType::kF16;
  }
}

DType fitting(DType type, std::int64_t row) {
  while (row % static_cast<std::int64_t>(traits(type).block_size) != 0) type = smaller_blocks(type);
  return type;
}

double bits(DType type) {
  const DTypeTraits& t = traits(type);
  return 8.0 * static_cast<double>(t.block_bytes) / static_cast<double>(t.block_size);
}

DType wanted_type(const QuantizeRecipe& recipe, const ModelToQuantize& model,
                  const TensorToQuantize& tensor) {
  const bool embedding = tensor.name == "token_embd.weight";
  const bool head = tensor.name == "output.weight" || (embedding && model.tied);
  if (recipe.full_embedding && (embedding || head)) return tensor.source_type;
  if (head && recipe.head) return *recipe.head;
  const bool sensitive = contains(tensor.name, ".attn_v.") || contains(tensor.name, ".ffn_down");
  if (recipe.sensitive && sensitive && in_sensitive_layer(tensor.name, model.num_layers)) {
    return *recipe.sensitive;
  }
  return recipe.base;
}

}  // namespace

std::span<const QuantizeRecipe> quantize_recipes() {
  return kRecipes;
}

const QuantizeRecipe* find_quantize_recipe(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (equal_ignoring_case(alias.name, name)) name = alias.recipe;
  }
  for (const QuantizeRecipe& recipe : kRecipes) {
    if (equal_ignoring_case(recipe.name, name)) return &recipe;
  }
  return nullptr;
}

DType quantized_type(const QuantizeRecipe& recipe, const ModelToQuantize& model,
                     const TensorToQuantize& tensor) {
  if (stays_exact(tensor)) return DType::kF32;
  const DType type = fitting(wanted_type(recipe, model, tensor), tensor.shape.front());
  // F16 and BF16 differ in kind, not in width: the wish counts.
  return bits(type) > bits(tensor.source_type) ? tensor.source_type : type;
}

}  // namespace sluice
