// Reads GGUF files, versions 2 and 3, little-endian.
//
// Layout: "GGUF", u32 version, u64 number of tensors, u64 number of metadata entries; the entries
// (key, u32 type, value); the tensor descriptions (name, u32 number of dimensions, u64 each,
// u32 element type, u64 offset); padding to general.alignment (32 unless set); tensor data.
// A string is a u64 length and its bytes. Offsets count from the start of the tensor data.
// Source: the GGUF specification, github.com/ggml-org/ggml, docs/gguf.md.
#pragma once

#include <filesystem>
#include <memory>

#include "engine/formats/model_source.hpp"

namespace sluice {

/// Maps the file, with all other parts when it is one of a split model, and checks all of it but
/// the weights' values. Nothing is allocated that the files' sizes do not justify. Throws Error:
/// kNotFound, kIo, kCorrupt, kUnsupported.
std::shared_ptr<const ModelSource> read_gguf(const std::filesystem::path& path);

}  // namespace sluice
