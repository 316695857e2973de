// What all tokenizers with a vocabulary share: special tokens, start and end, lookups.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/tokenizer/text_matcher.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {

/// Answers, for positions that only grow, whether a range touches one of the literal ranges.
class LiteralRanges {
 public:
  explicit LiteralRanges(std::span<const TextRange> ranges) : ranges_(ranges) {}

  bool touches(std::size_t begin, std::size_t end) {
    while (next_ < ranges_.size() && (ranges_[next_].end <= begin || is_empty(next_))) ++next_;
    return next_ < ranges_.size() && ranges_[next_].begin < end;
  }

 private:
  bool is_empty(std::size_t i) const { return ranges_[i].begin >= ranges_[i].end; }

  std::span<const TextRange> ranges_;
  std::size_t next_ = 0;  // first range that ends after the position
};

/// Cuts text at special tokens and added words; a derived class encodes what lies between.
/// Among the texts that match at a position the longest wins, and the leftmost match wins.
class VocabularyTokenizer : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  std::size_t vocab_size() const final { return vocabulary_.entries.size(); }
  std::string_view token_bytes(TokenId id) const final;
  bool is_special(TokenId id) const final;
  TokenId find_special(std::string_view text) const final { return marks_.find(text); }
  TokenId bos() const final { return vocabulary_.bos; }
  std::span<const TokenId> end_tokens() const final { return vocabulary_.end_tokens; }

 protected:
  explicit VocabularyTokenizer(Vocabulary vocabulary);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// For constructors, whose models put the final texts in place.
  Vocabulary& mutable_vocabulary() { return vocabulary_; }

  /// Appends the ids of a non-empty text that holds no special token.
  virtual void encode_plain(std::string_view text, std::vector<TokenId>& out) const = 0;

 private:
  Vocabulary vocabulary_;
  TextMatcher words_;  // added words: found in any text
  TextMatcher marks_;  // those and hidden tokens: found with parse_special
};

}  // namespace sluice
