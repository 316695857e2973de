// One GGUF file, which may be a part of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "engine/formats/gguf_metadata.hpp"
#include "engine/formats/mapped_file.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

struct GgufPart {
  MappedFile file;  ///< owns the bytes of the tensors
  std::uint32_t version = 0;
  MetadataMap metadata;
  std::vector<TensorView> tensors;
};

/// Maps the file and checks all of it but the weights' values. Nothing is allocated that the
/// file's size does not justify. Throws Error: kNotFound, kIo, kCorrupt, kUnsupported.
GgufPart read_gguf_part(const std::filesystem::path& path);

}  // namespace sluice
