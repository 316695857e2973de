// Tokens that are found in text before the rest is split, with the options of tokenizer.json.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/tokenizer/regex.hpp"
#include "engine/tokenizer/text_matcher.hpp"

namespace sluice {

struct HfAddedToken {
  std::string text;  ///< as it stands in the text that is searched; not empty
  TokenId id = -1;
  bool special = false;      ///< structure: only where special tokens are parsed
  bool single_word = false;  ///< not inside of a word
  bool takes_left = false;   ///< together with the white space on its left
  bool takes_right = false;  ///< and on its right
  bool normalized = false;   ///< searched in normalized text
};

/// Leftmost first, the longest of those that begin there. A token that may not stand where it was
/// found is text, all of it.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<HfAddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  /// Cuts `text` into runs of plain text and tokens: calls plain(begin, end) and
  /// found(token, begin, end) in order. `may_stand(token, begin, end)` refuses tokens.
  template <class MayStand, class Plain, class Found>
  void walk(std::string_view text, MayStand may_stand, Plain plain, Found found) const {
    std::size_t plain_begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = 0;
      const HfAddedToken* const token = longest_at(text, at, length);
      if (token == nullptr) {
        ++at;
        continue;
      }
      const std::size_t end = at + length;
      if (may_stand(*token, at, end) && (!token->single_word || is_word(text, at, end))) {
        const std::size_t begin = token->takes_left ? skip_left(text, plain_begin, at) : at;
        at = token->takes_right ? skip_right(text, end) : end;
        if (begin > plain_begin) plain(plain_begin, begin);
        found(*token, begin, at);
        plain_begin = at;
      } else {
        at = end;
      }
    }
    if (plain_begin < text.size()) plain(plain_begin, text.size());
  }

 private:
  const HfAddedToken* longest_at(std::string_view text, std::size_t at, std::size_t& length) const {
    const HfAddedToken* token = nullptr;
    matcher_.match(text, at, [&](TokenId index, std::size_t size) {
      token = &tokens_[static_cast<std::size_t>(index)];
      length = size;
      return true;
    });
    return token;
  }

  bool is_word(std::string_view text, std::size_t begin, std::size_t end) const;
  bool is_word_character(std::string_view code_point) const;
  static std::size_t skip_left(std::string_view text, std::size_t from, std::size_t begin);
  static std::size_t skip_right(std::string_view text, std::size_t end);

  std::vector<HfAddedToken> tokens_;
  TextMatcher matcher_;        // to indices of tokens_
  std::optional<Regex> word_;  // where some token must not stand inside of one
};

}  // namespace sluice
