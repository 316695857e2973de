#include "engine/tokenizer/code_point_bpe_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "engine/tokenizer/byte_pair_merger.hpp"
#include "engine/tokenizer/merge_table.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
/// Tokens by the texts they have in the file.
using TokenIndex = std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>>;

TokenIndex index_tokens(const Vocabulary& vocabulary) {
  TokenIndex index;
  index.reserve(vocabulary.entries.size());
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    const VocabularyEntry& entry = vocabulary.entries[i];
    const bool made_from_text =
        entry.kind == TokenKind::kNormal || entry.kind == TokenKind::kUserDefined;
    if (made_from_text) index[entry.text] = static_cast<TokenId>(i);
  }
  return index;
}

MergeTable read_merges(const CodePointBpeRules& rules, const TokenIndex& index) {
  MergeTable table(rules.merges.size());
  std::int32_t rank = 0;
  for (const auto& [left, right] : rules.merges) {
    const auto left_id = index.find(left);
    const auto right_id = index.find(right);
    const auto result = index.find(left + right);
    if (left_id != index.end() && right_id != index.end() && result != index.end()) {
      table.add(left_id->second, right_id->second, {rank, result->second});
    }
    ++rank;
  }
  return table;
}

class CodePointBpeTokenizer final : public VocabularyTokenizer {
 public:
  CodePointBpeTokenizer(Vocabulary vocabulary, const CodePointBpeRules& rules, MergeTable merges,
                        TokenIndex code_points, const std::array<TokenId, 256>& byte_tokens)
      : VocabularyTokenizer(std::move(vocabulary)),
        merges_(std::move(merges)),
        code_points_(std::move(code_points)),
        byte_tokens_(byte_tokens),
        prefix_(rules.prefix),
        replace_spaces_(rules.replace_spaces),
        strip_first_space_(rules.strip_first_space) {}

  std::string description() const override {
    return fmt::format("BPE over code points, {} tokens", vocab_size());
  }

 protected:
  bool adds_space_prefix() const override { return strip_first_space_; }

  void encode_plain(std::string_view plain, std::vector<TokenId>& out) const override {
    std::string text = prefix_;
    text += plain;
    if (replace_spaces_) text = spaces_to_marks(text);
    std::vector<SymbolId> symbols;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = std::max<std::size_t>(1, utf8_length(text, at));
      append_code_point(std::string_view(text).substr(at, length), symbols);
      at += length;
    }
    BytePairMerger(merges_).merge(symbols);
    out.insert(out.end(), symbols.begin(), symbols.end());
  }

 private:
  void append_code_point(std::string_view code_point, std::vector<SymbolId>& symbols) const {
    const auto found = code_points_.find(code_point);
    if (found != code_points_.end()) {
      symbols.push_back(found->second);
      return;
    }
    const bool has_bytes = std::all_of(code_point.begin(), code_point.end(),
                                       [&](char c) { return byte_token(c) >= 0; });
    if (has_bytes) {
      for (const char c : code_point) symbols.push_back(byte_token(c));
    } else if (const TokenId unknown = vocabulary().unknown;
               unknown >= 0 && (symbols.empty() || symbols.back() != unknown)) {
      symbols.push_back(unknown);  // one for a whole run of unknown text
    }
  }

  TokenId byte_token(char c) const { return byte_tokens_[static_cast<unsigned char>(c)]; }

  MergeTable merges_;
  TokenIndex code_points_;  // tokens of one code point
  std::array<TokenId, 256> byte_tokens_;
  std::string prefix_;
  bool replace_spaces_;
  bool strip_first_space_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_code_point_bpe_tokenizer(Vocabulary vocabulary,
                                                               const CodePointBpeRules& rules) {
  TokenIndex index = index_tokens(vocabulary);
  MergeTable merges = read_merges(rules, index);
  std::erase_if(index, [](const auto& token) {
    return token.first.empty() || utf8_length(token.first, 0) != token.first.size();
  });
  std::array<TokenId, 256> byte_tokens;
  byte_tokens.fill(-1);
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    VocabularyEntry& entry = vocabulary.entries[i];
    const auto byte = rules.byte_fallback ? byte_of_token(entry.text) : std::nullopt;
    if (byte) {
      byte_tokens[*byte] = static_cast<TokenId>(i);
      entry.text = std::string(1, static_cast<char>(*byte));
      entry.kind = TokenKind::kByte;
    } else if (rules.replace_spaces) {
      entry.text = marks_to_spaces(entry.text);
    }
  }
  return std::make_shared<CodePointBpeTokenizer>(std::move(vocabulary), rules, std::move(merges),
                                                 std::move(index), byte_tokens);
}

}  // namespace sluice
