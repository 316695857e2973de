// Unigram language models over pieces of text (SentencePiece's other algorithm): of all ways to
// cut a piece into tokens, the one with the highest sum of scores.
// Source: Kudo, "Subword Regularization" (2018), section 3; the search is Viterbi's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/piece_model.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

struct UnigramRules {
  std::vector<double> scores;  ///< log probability of each token
  TokenId unknown = -1;        ///< stands for one code point that no token covers
  bool byte_fallback = false;  ///< tokens "<0xNN>" stand for unknown text
};

/// `texts` are the tokens as in the file, one for each score; normal and user-defined ones, as
/// `vocabulary` says, are made from text. An unknown code point scores 10 less than the worst
/// token, and neighbouring unknown ones are one. Time: text times longest token.
std::unique_ptr<const PieceModel> make_unigram_model(std::span<const std::string> texts,
                                                     const Vocabulary& vocabulary,
                                                     const UnigramRules& rules);

}  // namespace sluice
