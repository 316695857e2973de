// BPE over code points, as tokenizer.json files of the Llama 2 and Gemma families describe it:
// spaces become U+2581, a code point without a token becomes byte tokens, and neighbours are
// merged by rank. (GGUF files describe the same tokenizers by scores, see spm_tokenizer.hpp.)
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

struct CodePointBpeRules {
  std::vector<std::pair<std::string, std::string>> merges;  ///< left and right, by rank
  std::string prefix;              ///< put before every run of text, e.g. U+2581; often empty
  bool replace_spaces = false;     ///< spaces become U+2581 and back
  bool strip_first_space = false;  ///< decoding drops the space that `prefix` became
  bool byte_fallback = false;
};

/// Merges that name a text which is no token, or make a control token, are left out.
std::shared_ptr<const Tokenizer> make_code_point_bpe_tokenizer(Vocabulary vocabulary,
                                                               const CodePointBpeRules& rules);

}  // namespace sluice
