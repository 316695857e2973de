// Unigram models in GGUF files, as T5 has them: text is rewritten by SentencePiece's table, spaces
// become U+2581 and are folded, and the best sum of scores decides.
#pragma once

#include <memory>

#include "engine/formats/model_source.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Reads tokens, scores and rewritings from tokenizer.ggml.* keys. Throws Error(kCorrupt).
std::shared_ptr<const Tokenizer> make_ugm_tokenizer(const ModelSource& source);

}  // namespace sluice
