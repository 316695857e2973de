// The token table of a model, whatever splits text into its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/formats/model_source.hpp"

namespace sluice {

/// What a token is for. The numbers are those of tokenizer.ggml.token_type.
enum class TokenKind : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,      ///< stands for text that has no token
  kControl = 3,      ///< structure such as end of turn; not shown, not made from plain text
  kUserDefined = 4,  ///< an added word; matched in any text before it is split
  kUnused = 5,       ///< decodes, but encoding never makes it
  kByte = 6,         ///< one byte, for text that has no token
};

struct VocabularyEntry {
  std::string text;  ///< as in the file; a tokenizer replaces it by the bytes it adds to output
  TokenKind kind = TokenKind::kNormal;
};

/// A token that is found in text before the rest is split.
struct AddedToken {
  std::string text;  ///< as it stands in text to encode; not empty
  TokenId id = -1;
  bool hidden = false;  ///< found only with parse_special, outside literal ranges
};

/// Tokens and the ids with a role. -1 means that the model has no such token.
struct Vocabulary {
  std::vector<VocabularyEntry> entries;
  std::vector<AddedToken> added;
  TokenId bos = -1;
  TokenId unknown = -1;
  std::vector<TokenId> end_tokens;  ///< sorted, without duplicates
  std::vector<TokenId> prefix;      ///< put first when special tokens are asked for
  std::vector<TokenId> suffix;      ///< put last

  bool contains(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < entries.size();
  }
  const VocabularyEntry& operator[](TokenId id) const {
    return entries[static_cast<std::size_t>(id)];
  }
};

/// Whether a token of this kind is structure, not text.
inline bool is_hidden(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

/// Reads tokenizer.ggml.* keys. `default_add_bos` holds when the model does not say. Throws
/// Error(kCorrupt) for missing tokens, arrays of different lengths, and ids out of range.
Vocabulary read_vocabulary(const ModelSource& source, bool default_add_bos);

/// Adds to `end_tokens` the tokens whose text ends a turn in published models. Call it while the
/// entries still have the texts of the file.
void add_known_turn_ends(Vocabulary& vocabulary);

}  // namespace sluice
