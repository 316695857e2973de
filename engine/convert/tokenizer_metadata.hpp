// tokenizer.json as GGUF metadata.
#pragma once

#include <cstdint>
#include <filesystem>

#include "engine/formats/gguf_metadata.hpp"

namespace sluice {

/// Adds tokenizer.ggml.* for the tokenizer of a Hugging Face folder, filled up with unused tokens
/// to `vocab_size`, the rows of the embedding. What was written is read again and must give the
/// same tokens as the original for texts of many kinds. Throws Error: kUnsupported (a tokenizer
/// that GGUF has no form for, or that comes out different), kCorrupt.
void add_tokenizer_metadata(const std::filesystem::path& tokenizer_json, std::int64_t vocab_size,
                            MetadataMap& keys);

}  // namespace sluice
