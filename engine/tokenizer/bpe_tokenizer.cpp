#include "engine/tokenizer/bpe_tokenizer.hpp"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/byte_pair_merger.hpp"
#include "engine/tokenizer/merge_table.hpp"
#include "engine/tokenizer/nfc.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

/// Symbols by their bytes: the tokens that encoding may make, and texts that only merges name.
class SymbolTable {
 public:
  explicit SymbolTable(const Vocabulary& vocabulary)
      : num_tokens_(static_cast<SymbolId>(vocabulary.entries.size())) {
    ids_.reserve(vocabulary.entries.size());
    for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
      const VocabularyEntry& entry = vocabulary.entries[i];
      // Of two tokens with the same text the later one is used.
      if (entry.kind == TokenKind::kNormal) ids_[entry.text] = static_cast<SymbolId>(i);
    }
  }

  /// The id of `bytes`, which gets one past the vocabulary if it has none yet.
  SymbolId intern(const std::string& bytes) {
    const auto found = ids_.find(bytes);
    if (found != ids_.end()) return found->second;
    const auto id = static_cast<SymbolId>(num_tokens_ + static_cast<SymbolId>(extra_.size()));
    extra_.push_back(bytes);
    ids_.emplace(extra_.back(), id);
    return id;
  }

  /// The token of exactly these bytes, or -1.
  TokenId find_token(std::string_view bytes) const {
    const auto found = ids_.find(bytes);
    return found != ids_.end() && found->second < num_tokens_ ? found->second : -1;
  }

  bool is_token(SymbolId id) const { return id < num_tokens_; }

  /// Bytes of a symbol that is no token.
  const std::string& extra_bytes(SymbolId id) const {
    return extra_[static_cast<std::size_t>(id - num_tokens_)];
  }

 private:
  SymbolId num_tokens_;
  std::deque<std::string> extra_;                       // does not move its elements
  std::unordered_map<std::string_view, SymbolId> ids_;  // views of the vocabulary and of extra_
};

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

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  /// `never_made` are texts of control tokens; no merge leads to one.
  BpeTokenizer(Vocabulary vocabulary, const BpeRules& rules,
               const std::unordered_set<std::string>& never_made)
      : VocabularyTokenizer(std::move(vocabulary)),
        symbols_(this->vocabulary()),
        merges_(rules.merges.size()),
        pre_tokenizer_(rules.patterns),
        ignore_merges_(rules.ignore_merges),
        normalize_nfc_(rules.normalize_nfc),
        splitting_(rules.splitting) {
    for (std::size_t byte = 0; byte < byte_symbols_.size(); ++byte) {
      byte_symbols_[byte] = symbols_.intern(std::string(1, static_cast<char>(byte)));
    }
    std::int32_t rank = 0;
    for (const auto& [left, right] : rules.merges) add_merge(left, right, rank++, never_made);
  }

  std::string description() const override {
    return fmt::format("byte-level BPE, {} splitting, {} tokens", splitting_, vocab_size());
  }

 protected:
  bool adds_space_prefix() const override { return false; }

  void encode_plain(std::string_view text, std::vector<TokenId>& out) const override {
    if (normalize_nfc_ && may_need_nfc(text)) {
      encode_normalized(normalize_nfc(text), out);
    } else {
      encode_normalized(text, out);
    }
  }

 private:
  void encode_normalized(std::string_view text, std::vector<TokenId>& out) const {
    std::vector<std::string_view> pieces;
    pre_tokenizer_.split(text, pieces);
    BytePairMerger merger(merges_);
    std::vector<SymbolId> symbols;
    for (const std::string_view piece : pieces) {
      const TokenId whole = ignore_merges_ ? symbols_.find_token(piece) : -1;
      if (whole >= 0) {
        out.push_back(whole);
        continue;
      }
      symbols.clear();
      for (const char c : piece) symbols.push_back(byte_symbols_[static_cast<unsigned char>(c)]);
      merger.merge(symbols);
      for (const SymbolId symbol : symbols) append_symbol(symbol, out);
    }
  }

  void add_merge(const std::string& left, const std::string& right, std::int32_t rank,
                 const std::unordered_set<std::string>& never_made) {
    if (never_made.contains(left + right)) return;
    const auto left_bytes = bytes_from_alphabet(left);
    const auto right_bytes = bytes_from_alphabet(right);
    if (!left_bytes || !right_bytes || left.empty() || right.empty())
      return;  // no byte leads there
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
      } else if (vocabulary().unknown >= 0) {
        out.push_back(vocabulary().unknown);
      }
    }
  }

  SymbolTable symbols_;
  MergeTable merges_;
  PreTokenizer pre_tokenizer_;
  bool ignore_merges_;
  bool normalize_nfc_;
  std::string splitting_;
  std::array<SymbolId, 256> byte_symbols_{};
};

const PreTokenizerRules& choose_rules(const ModelSource& source, const std::string& name) {
  const PreTokenizerRules* rules = find_pre_tokenizer(name);
  if (rules != nullptr) return *rules;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} splits text by the rules {} (tokenizer.ggml.pre), which this build "
                          "does not know, so its tokens would be wrong; it knows {}.",
                          source.path().string(), quote_text(name), known_pre_tokenizers()));
}

/// A merge reads "left right"; neither part contains a space.
std::vector<std::pair<std::string, std::string>> read_merges(const ModelSource& source) {
  const std::vector<std::string>* texts = source.get_strings("tokenizer.ggml.merges");
  if (texts == nullptr) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} has no merges (tokenizer.ggml.merges); text can't be encoded, so "
                            "use a file that contains them.",
                            source.path().string()));
  }
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(texts->size());
  for (const std::string& text : *texts) {
    const std::size_t space = text.find(' ', 1);
    if (space == std::string::npos) {
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("{}: merge {} is {} instead of two parts with a space between; the "
                              "file is damaged or was written by a faulty converter.",
                              source.path().string(), merges.size(), quote_text(text)));
    }
    merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return merges;
}

}  // namespace

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(Vocabulary vocabulary, const BpeRules& rules) {
  const std::unordered_set<std::string> control_texts = decode_texts(vocabulary);
  return std::make_shared<BpeTokenizer>(std::move(vocabulary), rules, control_texts);
}

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(const ModelSource& source) {
  // Files from before the key existed were made for the default rules.
  const std::string* pre = source.get_string("tokenizer.ggml.pre");
  const std::string name = pre == nullptr ? "default" : *pre;
  const PreTokenizerRules& named = choose_rules(source, name);
  Vocabulary vocabulary = read_vocabulary(source, named.default_add_bos);
  const BpeRules rules = {.merges = read_merges(source),
                          .patterns = {named.patterns.begin(), named.patterns.end()},
                          .ignore_merges = named.ignore_merges,
                          .normalize_nfc = named.normalize_nfc,
                          .splitting = name};
  return make_bpe_tokenizer(std::move(vocabulary), rules);
}

}  // namespace sluice
