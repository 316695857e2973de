// The tokens of a Hugging Face tokenizer, and which of them have a role.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/json_file.hpp"
#include "engine/tokenizer/added_tokens.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

struct HfVocabulary {
  Vocabulary vocabulary;            ///< entries have the texts of the file
  std::vector<HfAddedToken> added;  ///< not normalized yet
  std::vector<double> scores;       ///< of unigram models, one for each entry; otherwise empty
};

/// Reads the model's tokens (an object of ids, or a unigram model's list of scores) and the added
/// ones. Throws Error(kCorrupt).
HfVocabulary read_hf_tokens(const JsonFile& file, simdjson::dom::element model);

/// Id of a token by its text in the file, added tokens first; -1 when there is none.
TokenId find_hf_token(const Vocabulary& vocabulary, std::string_view text);

/// Reads what stands before and after the text (post_processor), and from the files beside
/// `tokenizer_json`, where they exist, start and end tokens; an empty path has none beside it.
/// Throws Error: kCorrupt, kUnsupported.
void read_hf_roles(const JsonFile& file, const std::filesystem::path& tokenizer_json,
                   Vocabulary& vocabulary);

}  // namespace sluice
