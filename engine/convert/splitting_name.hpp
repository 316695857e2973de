// The names under which GGUF files know a tokenizer's rules for splitting text.
#pragma once

#include <string_view>
#include <vector>

#include "engine/formats/json_file.hpp"

namespace sluice {

/// Candidates for tokenizer.ggml.pre, the likeliest first: rules with the same regular expressions
/// and options as tokenizer.json, then with the same expressions, then all that this build knows.
std::vector<std::string_view> splitting_names(const JsonFile& tokenizer_json);

}  // namespace sluice
