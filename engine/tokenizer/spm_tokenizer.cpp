#include "engine/tokenizer/spm_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

/// A candidate merge of the symbols at two neighbouring positions.
struct Candidate {
  float score = 0.0F;
  std::size_t left = 0;
  std::size_t right = 0;
  std::size_t bytes = 0;  ///< of both together; tells whether the candidate is out of date
};

/// Highest score first, leftmost among equals.
struct WorseCandidate {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
};

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

/// A run of the text, linked to its neighbours; size 0 once merged away.
struct Symbol {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t previous = kNowhere;
  std::size_t next = kNowhere;
};

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  SpmTokenizer(Vocabulary vocabulary, std::vector<float> scores,
               const std::array<TokenId, 256>& byte_tokens, bool add_space_prefix)
      : VocabularyTokenizer(std::move(vocabulary)),
        scores_(std::move(scores)),
        byte_tokens_(byte_tokens),
        add_space_prefix_(add_space_prefix) {
    const auto& entries = this->vocabulary().entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const TokenKind kind = entries[i].kind;
      if (kind == TokenKind::kControl || kind == TokenKind::kUnknown || kind == TokenKind::kByte) {
        continue;  // never made from plain text
      }
      pieces_.emplace(entries[i].text, static_cast<TokenId>(i));
      longest_piece_ = std::max(longest_piece_, entries[i].text.size());
    }
  }

  std::string description() const override {
    return fmt::format("SentencePiece BPE, {} tokens", vocab_size());
  }

 protected:
  bool adds_space_prefix() const override { return add_space_prefix_; }

  void encode_plain(std::string_view plain, std::vector<TokenId>& out) const override {
    std::string text = add_space_prefix_ ? " " : "";
    text += marks_to_spaces(plain);
    for (const Symbol& symbol : merge(text)) {
      if (symbol.size != 0)
        append_piece(std::string_view(text).substr(symbol.begin, symbol.size), out);
    }
  }

 private:
  std::vector<Symbol> merge(std::string_view text) const {
    std::vector<Symbol> symbols = split_code_points(text);
    std::priority_queue<Candidate, std::vector<Candidate>, WorseCandidate> queue;
    const auto consider = [&](std::size_t left, std::size_t right) {
      if (left == kNowhere || right == kNowhere) return;
      const std::size_t bytes = symbols[left].size + symbols[right].size;
      if (bytes > longest_piece_) return;
      const auto found = pieces_.find(text.substr(symbols[left].begin, bytes));
      if (found == pieces_.end()) return;
      queue.push({scores_[static_cast<std::size_t>(found->second)], left, right, bytes});
    };
    for (std::size_t i = 1; i < symbols.size(); ++i) consider(i - 1, i);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = symbols[best.left];
      Symbol& right = symbols[best.right];
      if (left.size == 0 || right.size == 0 || left.size + right.size != best.bytes) continue;
      left.size = best.bytes;
      right.size = 0;
      left.next = right.next;
      if (right.next != kNowhere) symbols[right.next].previous = best.left;
      consider(left.previous, best.left);
      consider(best.left, left.next);
    }
    return symbols;
  }

  /// One symbol a code point; bytes that are not UTF-8 stand alone.
  static std::vector<Symbol> split_code_points(std::string_view text) {
    std::vector<Symbol> symbols;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t size = std::max<std::size_t>(1, utf8_length(text, i));
      const std::size_t index = symbols.size();
      symbols.push_back({i, size, index == 0 ? kNowhere : index - 1, index + 1});
      i += size;
    }
    if (!symbols.empty()) symbols.back().next = kNowhere;
    return symbols;
  }

  void append_piece(std::string_view piece, std::vector<TokenId>& out) const {
    const auto found = pieces_.find(piece);
    if (found != pieces_.end()) {
      out.push_back(found->second);
      return;
    }
    for (const char c : piece) {
      const TokenId byte = byte_tokens_[static_cast<unsigned char>(c)];
      if (byte >= 0) {
        out.push_back(byte);
      } else if (vocabulary().unknown >= 0) {
        out.push_back(vocabulary().unknown);
      }
    }
  }

  std::vector<float> scores_;
  std::array<TokenId, 256> byte_tokens_;
  bool add_space_prefix_;
  std::unordered_map<std::string_view, TokenId> pieces_;  // views of the vocabulary's texts
  std::size_t longest_piece_ = 0;
};

std::vector<float> read_scores(const ModelSource& source, std::size_t num_tokens) {
  const std::vector<double>* scores = source.get_floats("tokenizer.ggml.scores");
  if (scores == nullptr || scores->size() != num_tokens) {
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("{}: tokenizer.ggml.scores has {} entries for {} tokens; the file is "
                    "damaged or was written by a faulty converter.",
                    source.path().string(), scores == nullptr ? 0 : scores->size(), num_tokens));
  }
  std::vector<float> narrow;
  narrow.reserve(scores->size());
  for (const double score : *scores) {
    // A score that can't be compared would break the order of merges.
    narrow.push_back(std::isnan(score) ? 0.0F : static_cast<float>(score));
  }
  return narrow;
}

}  // namespace

std::shared_ptr<const Tokenizer> make_spm_tokenizer(const ModelSource& source) {
  Vocabulary vocabulary = read_vocabulary(source, true);
  std::vector<float> scores = read_scores(source, vocabulary.entries.size());
  std::array<TokenId, 256> byte_tokens;
  byte_tokens.fill(-1);
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    VocabularyEntry& entry = vocabulary.entries[i];
    if (entry.kind == TokenKind::kByte) {
      const auto byte = byte_of_token(entry.text);
      if (!byte) continue;
      byte_tokens[*byte] = static_cast<TokenId>(i);
      entry.text = std::string(1, static_cast<char>(*byte));
    } else if (entry.kind == TokenKind::kNormal || entry.kind == TokenKind::kUnused) {
      entry.text = marks_to_spaces(entry.text);
    }
  }
  const bool add_space_prefix = source.get_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  return std::make_shared<SpmTokenizer>(std::move(vocabulary), std::move(scores), byte_tokens,
                                        add_space_prefix);
}

}  // namespace sluice
