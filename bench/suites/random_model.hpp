// Writes a model with random weights, so that anybody can measure a shape and a type without
// having such a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "bench/suites/model_shape.hpp"
#include "engine/formats/dtype.hpp"

namespace sluice::bench {

/// Which type each matrix gets: one for all, or the mixture that is called Q4_K_M: 4-bit super
/// blocks, and 6-bit ones for the head and, in half of the layers, for attn_v and ffn_down. Rows
/// that are not whole super blocks get 5-bit and 8-bit blocks instead.
struct TypeMix {
  std::string name;
  DType base;
  bool sensitive_better = false;

  DType type_of(std::string_view tensor, std::int32_t layer, std::int32_t layers,
                std::int64_t row) const;
};

/// "q8_0", "f16", ... or "q4_k_m". Throws Error(kInvalidArgument).
TypeMix parse_types(std::string_view text);

/// Writes a GGUF file. The weights have a standard deviation of 1 / sqrt(row length), so that
/// activations keep their size from layer to layer. The same arguments give the same bytes.
/// Throws Error(kIo), Error(kInvalidArgument) when a row is not whole blocks.
void write_random_model(const ModelShape& shape, const TypeMix& types,
                        const std::filesystem::path& path, std::uint64_t seed = 1);

}  // namespace sluice::bench
