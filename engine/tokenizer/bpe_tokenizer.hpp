// Byte-level BPE as GPT-2 made it: text is split by rules, and in each piece neighbouring bytes
// are merged by rank until no known pair is left.
#pragma once

#include <memory>

#include "engine/formats/model_source.hpp"
#include "engine/tokenizer/tokenizer.hpp"

namespace sluice {

/// Reads tokens, merges and the pre-tokenizer's name from tokenizer.ggml.* keys. Throws Error:
/// kCorrupt, kUnsupported (unknown pre-tokenizer, with the list of known ones).
std::shared_ptr<const Tokenizer> make_bpe_tokenizer(const ModelSource& source);

}  // namespace sluice
