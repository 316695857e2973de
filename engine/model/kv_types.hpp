// Types of the KV cache: K and V separately, and layer by layer.
//
// Worked example: `q8_0/f16` with the override `0-1=f16` stores V of every layer and K of the
// first two in f16, K of the others in 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/formats/dtype.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// The types of layers first_layer .. last_layer.
struct KvLayerTypes {
  std::int32_t first_layer = 0;
  std::int32_t last_layer = 0;
  DType type_k = DType::kF16;
  DType type_v = DType::kF16;
};

struct KvTypes {
  DType type_k = DType::kF16;
  DType type_v = DType::kF16;
  std::vector<KvLayerTypes> layers{};  ///< exceptions; of several for a layer the last counts
  std::int32_t key_rank = 0;  ///< elements that are kept of a key (key_basis.hpp); 0: head_dim

  /// K and V of a layer.
  std::pair<DType, DType> of_layer(std::int32_t layer) const;
  /// Elements of a key as it is stored.
  std::int32_t key_elements(const ModelConfig& config) const {
    return key_rank > 0 ? key_rank : config.head_dim;
  }
};

/// Whether K and V can be stored so: f32, f16, bf16, q8_0, q4_0.
bool is_kv_type(DType type);

/// Bytes of one position's `elements` of K or V of one head. Quantised types fill the last of
/// their groups of 32: 80 elements in q8_0 take 3 groups, 102 bytes.
std::size_t kv_row_bytes(DType type, std::int32_t elements);

/// Bytes of K and V of one position in one layer, all KV heads together.
std::size_t kv_layer_bytes(const KvTypes& types, const ModelConfig& config, std::int32_t layer);

/// Throws Error: kUnsupported for a type that is no KV type, kInvalidArgument for layers that the
/// model has not.
void check_kv_types(const KvTypes& types, const ModelConfig& config);

/// "q8_0". Throws Error(kInvalidArgument), naming `option`.
DType parse_kv_type(std::string_view text, std::string_view option);

/// "f16" or "q8_0/f16" (K/V). Throws Error(kInvalidArgument), naming `option`.
std::pair<DType, DType> parse_kv_types(std::string_view text, std::string_view option);

/// "0-3=f16", "5=q8_0/f16". Throws Error(kInvalidArgument), naming `option`.
KvLayerTypes parse_kv_layer_types(std::string_view text, std::string_view option);

/// "f16", "q8_0/f16", with exceptions "q4_0 (layers 0-3 f16)".
std::string describe(const KvTypes& types);

}  // namespace sluice
