// The metadata of a standard GGUF file for a model from any source.
#pragma once

#include <string>
#include <vector>

#include "engine/formats/gguf_metadata.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// The source's keys without those of our own; for a Hugging Face folder with its tokenizer under
/// tokenizer.ggml.*. Adds to `notes` what GGUF can't say. Throws Error: kUnsupported, kCorrupt.
MetadataMap model_metadata(const ModelSource& source, std::vector<std::string>& notes);

}  // namespace sluice
