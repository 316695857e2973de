// WordPiece and word-level models: pieces are words, and a word is a token, or the longest tokens
// from its start onwards, or unknown.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "engine/tokenizer/piece_model.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

struct WordPieceRules {
  std::string inner_prefix = "##";  ///< of tokens that go on inside a word
  std::size_t longest_word = 100;   ///< code points; a longer word is unknown
  TokenId unknown = -1;
};

/// `texts` are the tokens as in the file; the model refers to them. Control tokens are not made
/// from text.
std::unique_ptr<const PieceModel> make_word_piece_model(std::span<const std::string> texts,
                                                        const Vocabulary& vocabulary,
                                                        const WordPieceRules& rules);

/// Every word is one token or unknown.
std::unique_ptr<const PieceModel> make_word_level_model(std::span<const std::string> texts,
                                                        const Vocabulary& vocabulary);

}  // namespace sluice
