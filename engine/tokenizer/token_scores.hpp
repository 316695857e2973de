// The scores of a GGUF file's tokens.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/formats/model_source.hpp"

namespace sluice {

/// tokenizer.ggml.scores, one for each token; a score that is no number is 0. Throws
/// Error(kCorrupt) when there is another number of them.
std::vector<float> read_token_scores(const ModelSource& source, std::size_t num_tokens);

}  // namespace sluice
