#include "engine/model/kv_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

constexpr std::array kKvTypes{DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};
constexpr const char* kNames = "f32, f16, bf16, q8_0 or q4_0";

/// A layer number, the whole of `text`.
bool parse_layer(std::string_view text, std::int32_t& layer) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  return error == std::errc{} && end == text.data() + text.size() && layer >= 0;
}

std::string pair_name(DType k, DType v) {
  return k == v ? std::string(traits(k).name)
                : fmt::format("{}/{}", traits(k).name, traits(v).name);
}

}  // namespace

std::pair<DType, DType> KvTypes::of_layer(std::int32_t layer) const {
  for (auto entry = layers.rbegin(); entry != layers.rend(); ++entry)
    if (layer >= entry->first_layer && layer <= entry->last_layer)
      return {entry->type_k, entry->type_v};
  return {type_k, type_v};
}

bool is_kv_type(DType type) {
  return std::ranges::find(kKvTypes, type) != kKvTypes.end();
}

std::size_t kv_row_bytes(DType type, std::int32_t elements) {
  const std::size_t group = traits(type).block_size;
  const auto n = static_cast<std::size_t>(std::max(elements, 0));
  return (n + group - 1) / group * traits(type).block_bytes;
}

std::size_t kv_layer_bytes(const KvTypes& types, const ModelConfig& config, std::int32_t layer) {
  const auto [k, v] = types.of_layer(layer);
  return static_cast<std::size_t>(std::max(config.num_kv_heads, 0)) *
         (kv_row_bytes(k, types.key_elements(config)) + kv_row_bytes(v, config.head_dim));
}

void check_kv_types(const KvTypes& types, const ModelConfig& config) {
  const auto check = [](DType type) {
    if (!is_kv_type(type))
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("The KV cache can't be stored as {}; use {}.", traits(type).name, kNames));
  };
  if (types.key_rank < 0 || types.key_rank > config.head_dim)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("Keys of heads of {} elements can't be stored with {}; use 1 to {}.",
                            config.head_dim, types.key_rank, config.head_dim));
  check(types.type_k);
  check(types.type_v);
  for (const KvLayerTypes& entry : types.layers) {
    check(entry.type_k);
    check(entry.type_v);
    if (entry.first_layer < 0 || entry.last_layer < entry.first_layer ||
        entry.last_layer >= config.num_layers)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("KV types are given for the layers {}-{}, but the model's layers are "
                              "0-{}.",
                              entry.first_layer, entry.last_layer, config.num_layers - 1));
  }
}

DType parse_kv_type(std::string_view text, std::string_view option) {
  const auto type = dtype_from_name(text);
  if (type && is_kv_type(*type)) return *type;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} does not know the KV type \"{}\"; use {}.", option,
                          text.substr(0, 40), kNames));
}

std::pair<DType, DType> parse_kv_types(std::string_view text, std::string_view option) {
  const std::size_t slash = text.find('/');
  const DType k = parse_kv_type(text.substr(0, slash), option);
  return {k, slash == std::string_view::npos ? k : parse_kv_type(text.substr(slash + 1), option)};
}

KvLayerTypes parse_kv_layer_types(std::string_view text, std::string_view option) {
  const std::size_t equals = text.find('=');
  const std::string_view range = text.substr(0, equals);
  const std::size_t dash = range.find('-');
  KvLayerTypes entry;
  if (equals == std::string_view::npos || !parse_layer(range.substr(0, dash), entry.first_layer) ||
      !parse_layer(dash == std::string_view::npos ? range : range.substr(dash + 1),
                   entry.last_layer) ||
      entry.last_layer < entry.first_layer)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} needs layers and a type, like 0-3=f16 or 5=q8_0/f16, not \"{}\".",
                            option, text.substr(0, 40)));
  std::tie(entry.type_k, entry.type_v) = parse_kv_types(text.substr(equals + 1), option);
  return entry;
}

std::string describe(const KvTypes& types) {
  std::string text = pair_name(types.type_k, types.type_v);
  std::string exceptions;
  for (const KvLayerTypes& entry : types.layers) {
    if (!exceptions.empty()) exceptions += ", ";
    exceptions += entry.first_layer == entry.last_layer
                      ? fmt::format("layer {}", entry.first_layer)
                      : fmt::format("layers {}-{}", entry.first_layer, entry.last_layer);
    exceptions += fmt::format(" {}", pair_name(entry.type_k, entry.type_v));
  }
  return exceptions.empty() ? text : fmt::format("{} ({})", text, exceptions);
}

}  // namespace sluice
