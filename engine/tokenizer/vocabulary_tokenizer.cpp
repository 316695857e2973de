#include "engine/tokenizer/vocabulary_tokenizer.hpp"

#include <utility>

namespace sluice {
VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)) {
  for (const AddedToken& token : vocabulary_.added) {
    if (!token.hidden) words_.add(token.text, token.id);
    marks_.add(token.text, token.id);
  }
  vocabulary_.added.clear();
}

std::vector<TokenId> VocabularyTokenizer::encode(std::string_view text,
                                                 const EncodeOptions& options) const {
  std::vector<TokenId> out;
  if (options.add_special) out = vocabulary_.prefix;
  const TextMatcher& matcher = options.parse_special ? marks_ : words_;
  LiteralRanges literal(options.literal);
  std::size_t plain_begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool matched = matcher.match(text, at, [&](TokenId id, std::size_t length) {
      if (is_hidden(vocabulary_[id].kind) && literal.touches(at, at + length)) return false;
      if (at > plain_begin) encode_plain(text.substr(plain_begin, at - plain_begin), out);
      out.push_back(id);
      at += length;
      plain_begin = at;
      return true;
    });
    if (!matched) ++at;
  }
  if (at > plain_begin) encode_plain(text.substr(plain_begin), out);
  if (options.add_special) {
    out.insert(out.end(), vocabulary_.suffix.begin(), vocabulary_.suffix.end());
  }
  return out;
}

std::string_view VocabularyTokenizer::token_bytes(TokenId id) const {
  return vocabulary_.contains(id) ? std::string_view(vocabulary_[id].text) : std::string_view();
}

bool VocabularyTokenizer::is_special(TokenId id) const {
  return vocabulary_.contains(id) && is_hidden(vocabulary_[id].kind);
}

}  // namespace sluice
