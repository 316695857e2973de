// Byte-level BPE as GPT-2 made it: in each piece neighbouring bytes are merged by rank until no
// known pair is left.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/piece_model.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

struct ByteBpeRules {
  /// Left and right by rank, in the byte alphabet, as files have them.
  std::vector<std::pair<std::string, std::string>> merges;
  bool ignore_merges = false;  ///< a piece that is a token is taken whole, without merging
};

/// Replaces the texts of normal tokens, which are in the byte alphabet, by their bytes; the model
/// refers to them, so `vocabulary` must stay where it is and outlive the model. No merge leads to
/// a control token.
std::unique_ptr<const PieceModel> make_byte_bpe_model(Vocabulary& vocabulary,
                                                      const ByteBpeRules& rules);

}  // namespace sluice
