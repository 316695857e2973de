// Which type each tensor of a quantised model gets.
//
// A recipe has a type for most matrices and better ones for those that a model is sensitive to:
// the LM head, and in the _M mixtures attn_v and ffn_down of half of the layers. Vectors, norms,
// routers of experts and position tables stay in F32: they are small, and errors in them spread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/dtype.hpp"

namespace sluice {

struct QuantizeRecipe {
  std::string_view name;           ///< as users write it, in any case
  DType base;                      ///< of matrices
  std::optional<DType> head;       ///< of the LM head and of an embedding that serves as one
  std::optional<DType> sensitive;  ///< of attn_v and ffn_down in half of the layers
  bool full_embedding;             ///< embedding and head keep the type that the source has
  std::int64_t file_type;          ///< general.file_type of GGUF
  std::string_view summary;        ///< for --help and the documentation
};

std::span<const QuantizeRecipe> quantize_recipes();

/// Null for an unknown name.
const QuantizeRecipe* find_quantize_recipe(std::string_view name);

/// What has to be known of a tensor to choose its type.
struct TensorToQuantize {
  std::string_view name;  ///< in GGUF
  std::span<const std::int64_t> shape;
  DType source_type;
};

struct ModelToQuantize {
  std::int64_t num_layers = 0;
  bool tied = false;  ///< the embedding is the LM head as well
};

/// The type for one tensor. Rows that are not whole blocks of the wanted type get the nearest one
/// with smaller blocks. A tensor is never stored wider than its source, since that adds nothing.
DType quantized_type(const QuantizeRecipe& recipe, const ModelToQuantize& model,
                     const TensorToQuantize& tensor);

}  // namespace sluice
