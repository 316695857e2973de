#include "engine/kv/model_shape.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

struct Key {
  std::string_view name;
  std::int32_t ModelConfig::*member;
  std::int32_t most;
  bool needed;
};

constexpr std::array<Key, 8> kKeys{{
    {"layers", &ModelConfig::num_layers, 10'000, true},
    {"hidden", &ModelConfig::hidden_size, 1'000'000, true},
    {"heads", &ModelConfig::num_heads, 10'000, true},
    {"kv-heads", &ModelConfig::num_kv_heads, 10'000, false},
    {"head-dim", &ModelConfig::head_dim, 10'000, false},
    {"ffn", &ModelConfig::ffn_size, 10'000'000, false},
    {"vocab", &ModelConfig::vocab_size, 100'000'000, false},
    {"context", &ModelConfig::context_length, 1'000'000'000, false},
}};

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument,
              "The model shape " + what +
                  "; write it like layers=32,hidden=4096,heads=32,kv-heads=8,context=8192.");
}

std::int32_t number(std::string_view key, std::string_view text, std::int32_t least,
                    std::int32_t most) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    refuse("needs a whole number from " + std::to_string(least) + " to " + std::to_string(most) +
           " for " + std::string(key) + ", not \"" + std::string(text.substr(0, 40)) + "\"");
  }
  return value;
}

/// What is not a number of the configuration.
struct Extras {
  std::optional<std::int32_t> tied{};
  std::optional<std::int32_t> window{};      ///< positions
  std::optional<std::int32_t> full_every{};  ///< every so many layers one sees everything
};

struct ExtraKey {
  std::string_view name;
  std::optional<std::int32_t> Extras::*member;
  std::int32_t least;
  std::int32_t most;
};

constexpr std::array<ExtraKey, 3> kExtraKeys{{
    {"tied", &Extras::tied, 0, 1},
    {"window", &Extras::window, 1, 1'000'000'000},
    {"full-every", &Extras::full_every, 2, 10'000},
}};

void take_pair(std::string_view pair, ModelConfig& config, Extras& extras) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) {
    refuse("has no value for \"" + std::string(pair.substr(0, 40)) + "\"");
  }
  const std::string_view name = pair.substr(0, equals);
  const std::string_view value = pair.substr(equals + 1);
  for (const ExtraKey& key : kExtraKeys) {
    if (key.name != name) continue;
    if (extras.*key.member) refuse("names " + std::string(name) + " twice");
    extras.*key.member = number(name, value, key.least, key.most);
    return;
  }
  for (const Key& key : kKeys) {
    if (key.name != name) continue;
    if (config.*key.member != 0) refuse("names " + std::string(name) + " twice");
    config.*key.member = number(name, value, 1, key.most);
    return;
  }
  std::string known = "tied, window, full-every";
  for (const Key& key : kKeys) known += ", " + std::string(key.name);
  refuse("has no key \"" + std::string(name.substr(0, 40)) + "\" (known: " + known + ")");
}

/// What most models of the family have where nothing is said.
void fill_in(ModelConfig& config) {
  if (config.num_kv_heads == 0) config.num_kv_heads = config.num_heads;
  if (config.num_heads % config.num_kv_heads != 0) {
    refuse("has " + std::to_string(config.num_heads) + " heads, which " +
           std::to_string(config.num_kv_heads) + " KV heads do not divide");
  }
  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_heads != 0) {
      refuse("has a hidden size that its heads do not divide: say head-dim");
    }
    config.head_dim = config.hidden_size / config.num_heads;
  }
  if (config.ffn_size == 0) {
    // 8/3 of the hidden size, rounded up to a multiple of 256 (Touvron et al. 2023, LLaMA).
    const std::int64_t exact = (std::int64_t{config.hidden_size} * 8 + 2) / 3;
    config.ffn_size = static_cast<std::int32_t>((exact + 255) / 256 * 256);
  }
  if (config.vocab_size == 0) config.vocab_size = 32'000;
  if (config.context_length == 0) config.context_length = 4096;
  config.rope_dims = config.head_dim;
}

std::size_t size(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

/// Rows that do not fill a type's blocks are counted as if the last block were padded.
std::size_t matrix_bytes(DType type, std::int32_t rows, std::int32_t columns) {
  const std::size_t block = traits(type).block_size;
  return size(rows) * bytes_for(type, (size(columns) + block - 1) / block * block);
}

}  // namespace

ModelConfig parse_shape(std::string_view text) {
  ModelConfig config;
  config.architecture = "llama";
  config.name = "planned shape";
  Extras extras;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    take_pair(text.substr(begin, comma - begin), config, extras);
    begin = comma + 1;
  }
  for (const Key& key : kKeys) {
    if (key.needed && config.*key.member == 0) refuse("lacks " + std::string(key.name));
  }
  fill_in(config);
  config.tied_embeddings = extras.tied.value_or(0) == 1;
  if (extras.full_every && !extras.window) refuse("has full-every without window");
  for (std::int32_t i = 0; extras.window && i < config.num_layers; ++i) {
    const bool full = extras.full_every && (i + 1) % *extras.full_every == 0;
    config.layers.push_back({.window = full ? 0 : *extras.window});
  }
  return config;
}

std::size_t estimate_weights_bytes(const ModelConfig& config, DType type) {
  const std::int32_t hidden = config.hidden_size;
  const std::int32_t q_dim = config.num_heads * config.head_dim;
  const std::size_t attention = matrix_bytes(type, q_dim, hidden) +
                                2 * matrix_bytes(type, config.kv_dim(), hidden) +
                                matrix_bytes(type, hidden, q_dim);
  const std::size_t ffn =
      2 * matrix_bytes(type, config.ffn_size, hidden) + matrix_bytes(type, hidden, config.ffn_size);
  const std::size_t norm = sizeof(float) * size(hidden);
  const std::size_t embeddings =
      (config.tied_embeddings ? 1 : 2) * matrix_bytes(type, config.vocab_size, hidden);
  return size(config.num_layers) * (attention + ffn + 2 * norm) + embeddings + norm;
}

}  // namespace sluice
