// All weights of a Hugging Face folder, in one file or in several with an index.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "engine/formats/mapped_file.hpp"
#include "engine/formats/safetensors_reader.hpp"

namespace sluice {

struct HfWeights {
  std::vector<MappedFile> files;    ///< own the bytes of the tensors
  std::vector<SafeTensor> tensors;  ///< names differ
};

/// Reads model.safetensors or, where there is model.safetensors.index.json, the files that it
/// names, all of them inside the folder. Throws Error: kNotFound (no weights), kIo, kCorrupt
/// (a tensor twice or not where the index says), kUnsupported.
HfWeights read_hf_weights(const std::filesystem::path& folder);

}  // namespace sluice
