// From the name of a tensor in a Hugging Face folder to its name in GGUF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/formats/hf_family.hpp"

namespace sluice {

struct HfTensorName {
  std::string gguf;  ///< empty when the tensor is to be left out
  HfTransform transform = HfTransform::kNone;
};

/// Worked example: "model.layers.3.self_attn.q_proj.weight" of a llama gives "blk.3.attn_q.weight".
/// Names stand with or without the prefix of their model class. Empty for a name that the family
/// does not have.
std::optional<HfTensorName> hf_tensor_name(const HfFamily& family, std::string_view name);

}  // namespace sluice
