#include "engine/tokenizer/added_tokens.hpp"

#include <algorithm>
#include <utility>

#include "engine/tokenizer/regex_dialect.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "engine/tokenizer/white_space.hpp"

namespace sluice {
AddedTokenFinder::AddedTokenFinder(std::vector<HfAddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    matcher_.add(tokens_[i].text, static_cast<TokenId>(i));
    if (tokens_[i].single_word && !word_) {
      word_.emplace("\\A[" + std::string(kWordOfSteps) + "]", RegexDialect::kOniguruma);
    }
  }
}

bool AddedTokenFinder::is_word_character(std::string_view code_point) const {
  if (code_point.empty() || utf8_length(code_point, 0) != code_point.size()) return false;
  Regex::Scratch scratch;
  return word_->find(code_point, 0, scratch).has_value();
}

bool AddedTokenFinder::is_word(std::string_view text, std::size_t begin, std::size_t end) const {
  std::size_t left = begin;
  // Back to the first byte of the code point before.
  while (left > 0 && begin - left < 4) {
    --left;
    if ((static_cast<unsigned char>(text[left]) & 0xC0U) != 0x80U) break;
  }
  const std::string_view before = text.substr(left, begin - left);
  const std::string_view after =
      end < text.size() ? text.substr(end, utf8_length(text, end)) : std::string_view();
  return !is_word_character(before) && !is_word_character(after);
}

std::size_t AddedTokenFinder::skip_left(std::string_view text, std::size_t from,
                                        std::size_t begin) {
  return begin - trailing_white_space(text.substr(from, begin - from));
}

std::size_t AddedTokenFinder::skip_right(std::string_view text, std::size_t end) {
  return end + leading_white_space(text.substr(end));
}

}  // namespace sluice
