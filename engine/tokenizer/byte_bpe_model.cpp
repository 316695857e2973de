#include "engine/tokenizer/byte_bpe_model.hpp"

#include <array>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/byte_pair_merger.hpp"
#include "engine/tokenizer/merge_table.hpp"
#include "engine/tokenizer/token_table.hpp"

namespace sluice {
namespace {

/// Replaces the texts of normal tokens by their bytes; returns the texts of control tokens.
std::unordered_set<std::string> decode_texts(Vocabulary& vocabulary) {
  std::unordered_set<std::string> control_texts;
  for (VocabularyEntry& entry : vocabulary.entries) {
    if (entry.kind == TokenKind::kNormal || entry.kind == TokenKind::kUnused) {
      auto bytes = bytes_from_alphabet(entry.text);
      if (bytes) {
        entry.text = std::move(*bytes);
      } else {
        entry.kind = TokenKind::kUnused;  // text outside the alphabet can't come from merges
      }
    } else if (entry.kind != TokenKind::kUserDefined) {
      control_texts.insert(entry.text);
    }
  }
  return control_texts;
}

/// Symbols by their bytes: the tokens that encoding may make, and texts that only merges name.
class SymbolTable {
 public:
  SymbolTable(const TokenTable& tokens, std::size_t num_tokens)
      : tokens_(tokens), num_tokens_(static_cast<SymbolId>(num_tokens)) {}

  /// The id of `bytes`, which gets one past the vocabulary if it has none yet.
  SymbolId intern(const std::string& bytes) {
    const TokenId token = tokens_.find(bytes);
    if (token >= 0) return token;
    const auto found = extra_ids_.find(bytes);
    if (found != extra_ids_.end()) return found->second;
    const auto id = static_cast<SymbolId>(num_tokens_ + static_cast<SymbolId>(extra_.size()));
    extra_.push_back(bytes);
    extra_ids_.emplace(extra_.back(), id);
    return id;
  }

  bool is_token(SymbolId id) const { return id < num_tokens_; }

  /// Bytes of a symbol that is no token.
  const std::string& extra_bytes(SymbolId id) const {
    return extra_[static_cast<std::size_t>(id - num_tokens_)];
  }

 private:
  const TokenTable& tokens_;
  SymbolId num_tokens_;
  std::deque<std::string> extra_;  // does not move its elements
  std::unordered_map<std::string_view, SymbolId> extra_ids_;
};

class ByteBpeModel final : public PieceModel {
 public:
  ByteBpeModel(const Vocabulary& vocabulary, const ByteBpeRules& rules,
               const std::unordered_set<std::string>& never_made)
      : unknown_(vocabulary.unknown),
        tokens_(vocabulary.entries.size()),
        symbols_(tokens_, vocabulary.entries.size()),
        merges_(rules.merges.size()),
        whole_(vocabulary.entries.size()),
        ignore_merges_(rules.ignore_merges) {
    for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
      const VocabularyEntry& entry = vocabulary.entries[i];
      // Of two tokens with the same text the later one is used.
      if (entry.kind == TokenKind::kNormal) tokens_.set(entry.text, static_cast<TokenId>(i));
    }
    for (std::size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
      byte_symbols_[byte] = symbols_.intern(std::string(1, static_cast<char>(byte)));
    }
    std::int32_t rank = 0;
    for (const auto& [left, right] : rules.merges) add_merge(left, right, rank++, never_made);
  }

  std::string description() const override { return "byte-level BPE"; }

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override {
    BytePairMerger merger(merges_);
    std::vector<SymbolId> symbols;
    for (const std::string_view piece : pieces) {
      const TokenId token = tokens_.find(piece);
      const auto state = token >= 0 ? whole_.state(token) : WholeTokens::State::kSplit;
      if (state == WholeTokens::State::kWhole || (token >= 0 && ignore_merges_)) {
        out.push_back(token);
        continue;
      }
      symbols.clear();
      for (const char c : piece) symbols.push_back(byte_symbols_[static_cast<unsigned char>(c)]);
      merger.merge(symbols);
      if (state == WholeTokens::State::kUnknown) {
        whole_.learn(token, symbols.size() == 1 && symbols.front() == token);
      }
      for (const SymbolId symbol : symbols) append_symbol(symbol, out);
    }
  }

 private:
  void add_merge(const std::string& left, const std::string& right, std::int32_t rank,
                 const std::unordered_set<std::string>& never_made) {
    if (never_made.contains(left + right)) return;
    const auto left_bytes = bytes_from_alphabet(left);
    const auto right_bytes = bytes_from_alphabet(right);
    if (!left_bytes || !right_bytes || left.empty() || right.empty()) {
      return;  // no byte leads there
    }
    merges_.add(symbols_.intern(*left_bytes), symbols_.intern(*right_bytes),
                {rank, symbols_.intern(*left_bytes + *right_bytes)});
  }

  /// A symbol without a token falls apart into bytes; a byte without a token becomes the
  /// unknown token, or nothing where the model has none.
  void append_symbol(SymbolId symbol, std::vector<TokenId>& out) const {
    if (symbols_.is_token(symbol)) {
      out.push_back(symbol);
      return;
    }
    for (const char c : symbols_.extra_bytes(symbol)) {
      const SymbolId byte = byte_symbols_[static_cast<unsigned char>(c)];
      if (symbols_.is_token(byte)) {
        out.push_back(byte);
      } else if (unknown_ >= 0) {
        out.push_back(unknown_);
      }
    }
  }

  TokenId unknown_;
  TokenTable tokens_;
  SymbolTable symbols_;
  MergeTable merges_;
  WholeTokens whole_;
  bool ignore_merges_;
  std::array<SymbolId, 256> byte_symbols_{};
};

}  // namespace

std::unique_ptr<const PieceModel> make_byte_bpe_model(Vocabulary& vocabulary,
                                                      const ByteBpeRules& rules) {
  const std::unordered_set<std::string> control_texts = decode_texts(vocabulary);
  return std::make_unique<ByteBpeModel>(vocabulary, rules, control_texts);
}

}  // namespace sluice
