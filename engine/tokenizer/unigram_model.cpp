#include "engine/tokenizer/unigram_model.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/tokenizer/piece_trie.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

/// How much less than the worst token an unknown code point scores.
constexpr double kUnknownPenalty = 10.0;

class UnigramModel final : public PieceModel {
 public:
  UnigramModel(std::span<const std::string> texts, const Vocabulary& vocabulary,
               const UnigramRules& rules)
      : scores_(rules.scores), unknown_(rules.unknown) {
    byte_tokens_.fill(-1);
    double worst = 0.0;
    bool any = false;
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      if (!any || scores_[i] < worst) worst = scores_[i];
      any = true;
      const auto id = static_cast<TokenId>(i);
      const auto byte = rules.byte_fallback ? byte_of_token(texts[i]) : std::nullopt;
      if (byte) byte_tokens_[*byte] = id;
      const TokenKind kind = vocabulary.entries[i].kind;
      const bool made_from_text = kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
      if (made_from_text && !texts[i].empty()) trie_.add(texts[i], id);
    }
    unknown_score_ = worst - kUnknownPenalty;
  }

  std::string description() const override { return "unigram"; }

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override {
    std::vector<Step> steps;
    std::vector<Part> parts;
    for (const std::string_view piece : pieces) {
      search(piece, steps);
      trace_back(steps, parts);
      for (const Part& part : parts) append(piece.substr(part.begin, part.size), part.id, out);
    }
  }

 private:
  /// The best way to an end in the piece.
  struct Step {
    double score = 0.0;
    std::size_t begin = std::numeric_limits<std::size_t>::max();  ///< of the last token; max: none
    TokenId id = -1;                                              ///< -1: unknown text

    bool reached() const { return begin != std::numeric_limits<std::size_t>::max(); }
    void offer(double candidate, std::size_t from, TokenId token) {
      if (!reached() || candidate > score) *this = {candidate, from, token};
    }
  };
  struct Part {
    std::size_t begin = 0;
    std::size_t size = 0;
    TokenId id = -1;
  };

  void search(std::string_view piece, std::vector<Step>& steps) const {
    steps.assign(piece.size() + 1, {});
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t length = std::max<std::size_t>(1, utf8_length(piece, at));
      const double so_far = steps[at].score;
      bool has_single = false;
      trie_.for_each_prefix(piece.substr(at), [&](std::size_t size, TokenId id) {
        steps[at + size].offer(so_far + scores_[static_cast<std::size_t>(id)], at, id);
        has_single = has_single || size == length;
      });
      if (!has_single) steps[at + length].offer(so_far + unknown_score_, at, -1);
      at += length;
    }
  }

  static void trace_back(const std::vector<Step>& steps, std::vector<Part>& parts) {
    parts.clear();
    for (std::size_t end = steps.size() - 1; end > 0; end = steps[end].begin) {
      const Step& step = steps[end];
      if (step.id < 0 && !parts.empty() && parts.back().id < 0) {
        parts.back().begin = step.begin;
        parts.back().size += end - step.begin;
      } else {
        parts.push_back({step.begin, end - step.begin, step.id});
      }
    }
    std::reverse(parts.begin(), parts.end());
  }

  void append(std::string_view part, TokenId id, std::vector<TokenId>& out) const {
    const auto byte_token = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
    if (id >= 0) {
      out.push_back(id);
    } else if (std::all_of(part.begin(), part.end(), [&](char c) { return byte_token(c) >= 0; })) {
      for (const char c : part) out.push_back(byte_token(c));
    } else if (unknown_ >= 0) {
      out.push_back(unknown_);
    }
  }

  std::vector<double> scores_;
  TokenId unknown_;
  double unknown_score_ = 0.0;
  PieceTrie trie_;
  std::array<TokenId, 256> byte_tokens_{};
};

}  // namespace

std::unique_ptr<const PieceModel> make_unigram_model(std::span<const std::string> texts,
                                                     const Vocabulary& vocabulary,
                                                     const UnigramRules& rules) {
  return std::make_unique<UnigramModel>(texts, vocabulary, rules);
}

}  // namespace sluice
