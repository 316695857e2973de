#include "engine/tokenizer/word_piece_model.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tokenizer/token_table.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

TokenTable index_texts(std::span<const std::string> texts, const Vocabulary& vocabulary) {
  TokenTable table(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].empty() && vocabulary.entries[i].kind != TokenKind::kControl)
      table.set(texts[i], static_cast<TokenId>(i));
  }
  return table;
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

class WordPieceModel final : public PieceModel {
 public:
  WordPieceModel(std::span<const std::string> texts, const Vocabulary& vocabulary,
                 WordPieceRules rules)
      : tokens_(index_texts(texts, vocabulary)), rules_(std::move(rules)) {}

  std::string description() const override { return "WordPiece"; }

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override {
    for (const std::string_view piece : pieces) {
      const std::size_t before = out.size();
      if (count_code_points(piece) <= rules_.longest_word && split(piece, out)) continue;
      out.resize(before);
      if (rules_.unknown >= 0) out.push_back(rules_.unknown);
    }
  }

 private:
  bool split(std::string_view word, std::vector<TokenId>& out) const {
    for (std::size_t begin = 0; begin < word.size();) {
      std::string text = begin == 0 ? std::string() : rules_.inner_prefix;
      const std::size_t prefix = text.size();
      text += word.substr(begin);
      TokenId token = tokens_.find(text);
      while (token < 0 && text.size() > prefix) {
        // Shorter by one code point.
        do {
          text.pop_back();
        } while (text.size() > prefix &&
                 (static_cast<unsigned char>(word[begin + text.size() - prefix]) & 0xC0U) == 0x80U);
        if (text.size() > prefix) token = tokens_.find(text);
      }
      if (token < 0) return false;
      out.push_back(token);
      begin += text.size() - prefix;
    }
    return true;
  }

  TokenTable tokens_;
  WordPieceRules rules_;
};

class WordLevelModel final : public PieceModel {
 public:
  WordLevelModel(std::span<const std::string> texts, const Vocabulary& vocabulary)
      : tokens_(index_texts(texts, vocabulary)), unknown_(vocabulary.unknown) {}

  std::string description() const override { return "word-level"; }

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override {
    for (const std::string_view piece : pieces) {
      const TokenId token = tokens_.find(piece);
      if (token >= 0 || unknown_ >= 0) out.push_back(token >= 0 ? token : unknown_);
    }
  }

 private:
  TokenTable tokens_;
  TokenId unknown_;
};

}  // namespace

std::unique_ptr<const PieceModel> make_word_piece_model(std::span<const std::string> texts,
                                                        const Vocabulary& vocabulary,
                                                        const WordPieceRules& rules) {
  return std::make_unique<WordPieceModel>(texts, vocabulary, rules);
}

std::unique_ptr<const PieceModel> make_word_level_model(std::span<const std::string> texts,
                                                        const Vocabulary& vocabulary) {
  return std::make_unique<WordLevelModel>(texts, vocabulary);
}

}  // namespace sluice
