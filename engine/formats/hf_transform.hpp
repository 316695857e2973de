// Brings a tensor of a Hugging Face folder into the form that GGUF has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/formats/hf_family.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/formats/safetensors_reader.hpp"

namespace sluice {

/// Memory for tensors that can't be used where they lie in a file.
using OwnedBytes = std::vector<std::unique_ptr<std::byte[]>>;

/// A view under the GGUF name, of the tensor's own bytes where possible, else of a copy that goes
/// to `owned`. `num_heads` is for kSplitHeads. Throws Error: kUnsupported (element type), kCorrupt
/// (a shape that the transformation can't have), naming the tensor and `folder`.
TensorView transform_hf_tensor(const SafeTensor& tensor, std::string gguf_name,
                               HfTransform transform, std::int64_t num_heads,
                               const std::filesystem::path& folder, OwnedBytes& owned);

}  // namespace sluice
