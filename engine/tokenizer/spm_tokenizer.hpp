// SentencePiece BPE: the whole text is one piece, spaces are part of tokens, and neighbouring
// pieces are merged by the score of the result. Code points without a token become byte tokens.
#pragma once

#include <memory>

#include "engine/formats/model_source.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Reads tokens and scores from tokenizer.ggml.* keys. Throws Error(kCorrupt).
std::shared_ptr<const Tokenizer> make_spm_tokenizer(const ModelSource& source);

}  // namespace sluice
