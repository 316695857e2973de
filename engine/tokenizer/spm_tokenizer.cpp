#include "engine/tokenizer/spm_tokenizer.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "engine/tokenizer/mark_cutter.hpp"
#include "engine/tokenizer/piece_model.hpp"
#include "engine/tokenizer/score_merger.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/token_scores.hpp"
#include "engine/tokenizer/token_table.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

class SpmTokenizer final : public VocabularyTokenizer {
 public:
  SpmTokenizer(Vocabulary vocabulary, std::vector<float> scores,
               const std::array<TokenId, 256>& byte_tokens, bool add_space_prefix)
      : VocabularyTokenizer(std::move(vocabulary)),
        byte_tokens_(byte_tokens),
        add_space_prefix_(add_space_prefix),
        pieces_(this->vocabulary().entries.size()),
        whole_(this->vocabulary().entries.size()),
        merger_(pieces_, std::move(scores)) {
    const auto& entries = this->vocabulary().entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const TokenKind kind = entries[i].kind;
      if (kind == TokenKind::kControl || kind == TokenKind::kUnknown || kind == TokenKind::kByte) {
        continue;  // never made from plain text
      }
      // Of two tokens with the same text the first one is used.
      if (pieces_.find(entries[i].text) < 0) {
        pieces_.set(entries[i].text, static_cast<TokenId>(i));
        cutter_.never_cut_inside(entries[i].text);
      }
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
    ScoreMerger::Work work;
    // Parts that no merge joins are encoded by themselves, most of them in one look-up.
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view part = rest.substr(0, cutter_.first_part(rest));
      encode_part(part, work, out);
      rest.remove_prefix(part.size());
    }
  }

 private:
  void encode_part(std::string_view part, ScoreMerger::Work& work,
                   std::vector<TokenId>& out) const {
    const TokenId token = pieces_.find(part);
    const auto state = token >= 0 ? whole_.state(token) : WholeTokens::State::kSplit;
    if (state == WholeTokens::State::kWhole) {
      out.push_back(token);
      return;
    }
    merger_.merge(part, work);
    if (state == WholeTokens::State::kUnknown) whole_.learn(token, work.runs.size() == 1);
    for (const std::string_view run : work.runs) append_piece(run, out);
  }

  void append_piece(std::string_view piece, std::vector<TokenId>& out) const {
    const TokenId token = pieces_.find(piece);
    if (token >= 0) {
      out.push_back(token);
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

  std::array<TokenId, 256> byte_tokens_;
  bool add_space_prefix_;
  TokenTable pieces_;
  WholeTokens whole_;
  ScoreMerger merger_;
  MarkCutter cutter_{" "};
};

}  // namespace

std::shared_ptr<const Tokenizer> make_spm_tokenizer(const ModelSource& source) {
  Vocabulary vocabulary = read_vocabulary(source, true);
  std::vector<float> scores = read_token_scores(source, vocabulary.entries.size());
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
