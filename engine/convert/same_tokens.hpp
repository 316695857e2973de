// Whether a tokenizer survived its conversion.
#pragma once

#include <optional>
#include <string>

#include "engine/formats/gguf_metadata.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Builds the tokenizer that a GGUF file with this metadata would have and compares it with the
/// original on texts of many kinds: scripts, digits, white space, contractions, code, marks. Gives
/// the first text that comes out different, or nothing.
std::optional<std::string> first_different_text(const Tokenizer& original, const MetadataMap& keys);

}  // namespace sluice
