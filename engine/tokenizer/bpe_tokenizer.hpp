// Byte-level BPE as GPT-2 made it: text is split by rules, and in each piece neighbouring bytes
// are merged by rank until no known pair is left.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/formats/model_source.hpp"
#include "engine/tokenizer/byte_bpe_model.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

/// Everything that makes a byte-level BPE. Texts of tokens and merges are in the byte alphabet,
/// as files have them.
struct BpeRules {
  ByteBpeRules model;
  std::vector<std::string_view> patterns;  ///< regular expressions that split text, in order
  bool normalize_nfc = false;
  std::string splitting{};  ///< name of the rules, for the description
  std::string warning{};    ///< see Tokenizer::warning
};

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(Vocabulary vocabulary, const BpeRules& rules);

/// Reads tokens, merges and the pre-tokenizer's name from tokenizer.ggml.* keys. Throws Error:
/// kCorrupt, kUnsupported (unknown pre-tokenizer, with the list of known ones).
std::shared_ptr<const Tokenizer> make_bpe_tokenizer(const ModelSource& source,
                                                    const TokenizerOptions& options);

}  // namespace sluice
