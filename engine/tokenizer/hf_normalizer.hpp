// The "normalizer" of a tokenizer.json.
#pragma once

#include "engine/formats/json_file.hpp"
#include "engine/tokenizer/normalizer.hpp"
#include "engine/tokenizer/regex.hpp"

namespace sluice {

/// Reads the steps; none where the file has no normalizer. Throws Error: kCorrupt, kUnsupported
/// (naming the step).
Normalizer read_hf_normalizer(const JsonFile& file);

/// The pattern of a step as a regular expression; a fixed text is quoted. Throws Error(kCorrupt).
Regex read_hf_pattern(const JsonFile& file, simdjson::dom::element step);

}  // namespace sluice
