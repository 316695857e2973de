// BPE over code points, as tokenizer.json files of the Llama 2 and Gemma families describe it: a
// code point without a token becomes byte tokens or the unknown token, and neighbours are merged
// by rank. (GGUF files describe the same tokenizers by scores, see spm_tokenizer.hpp.)
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/piece_model.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

struct CodePointBpeRules {
  std::vector<std::pair<std::string, std::string>> merges;  ///< left and right, by rank
  std::string inner_prefix{};  ///< put before every code point of a piece but the first
  std::string end_suffix{};    ///< put after the last code point of a piece, e.g. "</w>"
  bool byte_fallback = false;  ///< tokens "<0xNN>" stand for code points without a token
  bool fuse_unknown = false;   ///< one unknown token for a run of unknown code points
  bool ignore_merges = false;  ///< a piece that is a token is taken whole
  TokenId unknown = -1;
};

/// `texts` are the tokens as in the file; the model refers to them. Merges that name a text which
/// is no token, or make a control token, are left out.
std::unique_ptr<const PieceModel> make_code_point_bpe_model(std::span<const std::string> texts,
                                                            const Vocabulary& vocabulary,
                                                            const CodePointBpeRules& rules);

}  // namespace sluice
