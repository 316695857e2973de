// Reads tokenizer.json, the tokenizer format of Hugging Face folders.
//
// Known: models of the types BPE, Unigram, WordPiece and WordLevel, and the steps around them that
// hf_normalizer.cpp, hf_splitter.cpp, hf_vocabulary.cpp (post-processors) and hf_decoder.cpp name.
// Anything else is refused by name, since leaving it out would give other tokens.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Reads the file and, where they lie beside it, tokenizer_config.json (start and end tokens)
/// and generation_config.json (more end tokens). Throws Error: kNotFound, kCorrupt,
/// kUnsupported.
std::shared_ptr<const Tokenizer> read_hf_tokenizer(const std::filesystem::path& tokenizer_json);

/// The same from memory, without any file beside it; `name` is for messages.
std::shared_ptr<const Tokenizer> parse_hf_tokenizer(std::string_view json,
                                                    const std::filesystem::path& name);

}  // namespace sluice
