#include "engine/tokenizer/code_point_bpe_model.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "engine/tokenizer/byte_pair_merger.hpp"
#include "engine/tokenizer/mark_cutter.hpp"
#include "engine/tokenizer/merge_table.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/token_table.hpp"
#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

class CodePointBpeModel final : public PieceModel {
 public:
  CodePointBpeModel(std::span<const std::string> texts, const Vocabulary& vocabulary,
                    const CodePointBpeRules& rules)
      : tokens_(texts.size()),
        merges_(rules.merges.size()),
        whole_(texts.size()),
        inner_prefix_(rules.inner_prefix),
        end_suffix_(rules.end_suffix),
        unknown_(rules.unknown),
        fuse_unknown_(rules.fuse_unknown),
        ignore_merges_(rules.ignore_merges) {
    byte_tokens_.fill(-1);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const TokenKind kind = vocabulary.entries[i].kind;
      const auto id = static_cast<TokenId>(i);
      if (kind == TokenKind::kNormal || kind == TokenKind::kUserDefined) tokens_.set(texts[i], id);
      const auto byte = rules.byte_fallback ? byte_of_token(texts[i]) : std::nullopt;
      if (byte) byte_tokens_[*byte] = id;
    }
    add_merges(rules);
  }

  std::string description() const override { return "BPE over code points"; }

  void encode(std::span<const std::string_view> pieces, std::vector<TokenId>& out) const override {
    Work work{BytePairMerger(merges_), {}, {}};
    for (std::string_view piece : pieces) {
      const TokenId token = ignore_merges_ ? tokens_.find(piece) : -1;
      if (token >= 0) {
        out.push_back(token);
        continue;
      }
      // Parts that no merge joins are encoded by themselves, most of them in one look-up.
      const bool has_affixes = !inner_prefix_.empty() || !end_suffix_.empty();
      while (!piece.empty()) {
        const std::size_t size = has_affixes ? piece.size() : cutter_.first_part(piece);
        encode_part(piece.substr(0, size), work, out);
        piece.remove_prefix(size);
      }
    }
  }

 private:
  struct Work {
    BytePairMerger merger;
    std::vector<SymbolId> symbols;
    std::string affixed;
  };

  void add_merges(const CodePointBpeRules& rules) {
    // A mark without a token would be unknown, and runs of the unknown join across it.
    bool can_cut = tokens_.find(kSpaceMark) >= 0;
    std::int32_t rank = 0;
    for (const auto& [left, right] : rules.merges) {
      // The right part stands inside of the piece, so its affix is dropped in the result.
      std::string_view tail = right;
      if (tail.starts_with(inner_prefix_)) tail.remove_prefix(inner_prefix_.size());
      const TokenId left_id = tokens_.find(left);
      const TokenId right_id = tokens_.find(right);
      const TokenId result = tokens_.find(left + std::string(tail));
      if (left_id >= 0 && right_id >= 0 && result >= 0) {
        merges_.add(left_id, right_id, {rank, result});
        cutter_.never_cut_between(left, right);
        // Symbols whose texts are not what stands in the piece.
        if (left_id == unknown_ || byte_of_token(left)) can_cut = false;
      }
      ++rank;
    }
    if (!can_cut) cutter_.never_cut();
  }

  void encode_part(std::string_view part, Work& work, std::vector<TokenId>& out) const {
    const TokenId token = end_suffix_.empty() ? tokens_.find(part) : -1;
    const auto state = token >= 0 ? whole_.state(token) : WholeTokens::State::kSplit;
    if (state == WholeTokens::State::kWhole) {
      out.push_back(token);
      return;
    }
    split_code_points(part, work);
    work.merger.merge(work.symbols);
    if (state == WholeTokens::State::kUnknown) {
      whole_.learn(token, work.symbols.size() == 1 && work.symbols.front() == token);
    }
    out.insert(out.end(), work.symbols.begin(), work.symbols.end());
  }

  void split_code_points(std::string_view part, Work& work) const {
    work.symbols.clear();
    bool unknown_waits = false;
    for (std::size_t at = 0; at < part.size();) {
      const std::size_t length = std::max<std::size_t>(1, utf8_length(part, at));
      const bool is_first = at == 0;
      const bool is_last = at + length == part.size();
      const std::string_view symbol =
          with_affixes(part.substr(at, length), is_first, is_last, work.affixed);
      at += length;
      const TokenId token = tokens_.find(symbol);
      if (token < 0 && append_bytes(symbol, work.symbols)) continue;
      if (token < 0 && unknown_ < 0) continue;
      // An unknown run is written when it ends; runs are kept apart where they are not fused.
      if (unknown_waits && (token >= 0 || !fuse_unknown_)) work.symbols.push_back(unknown_);
      unknown_waits = token < 0;
      if (token >= 0) work.symbols.push_back(token);
    }
    if (unknown_waits) work.symbols.push_back(unknown_);
  }

  std::string_view with_affixes(std::string_view code_point, bool is_first, bool is_last,
                                std::string& affixed) const {
    const bool has_prefix = !is_first && !inner_prefix_.empty();
    const bool has_suffix = is_last && !end_suffix_.empty();
    if (!has_prefix && !has_suffix) return code_point;
    affixed = has_prefix ? inner_prefix_ : std::string();
    affixed += code_point;
    if (has_suffix) affixed += end_suffix_;
    return affixed;
  }

  /// False, with nothing appended, unless every byte has a token.
  bool append_bytes(std::string_view symbol, std::vector<SymbolId>& symbols) const {
    const auto byte_token = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
    if (!std::all_of(symbol.begin(), symbol.end(), [&](char c) { return byte_token(c) >= 0; })) {
      return false;
    }
    for (const char c : symbol) symbols.push_back(byte_token(c));
    return true;
  }

  TokenTable tokens_;
  MergeTable merges_;
  WholeTokens whole_;
  MarkCutter cutter_;
  std::array<TokenId, 256> byte_tokens_{};
  std::string inner_prefix_;
  std::string end_suffix_;
  TokenId unknown_;
  bool fuse_unknown_;
  bool ignore_merges_;
};

}  // namespace

std::unique_ptr<const PieceModel> make_code_point_bpe_model(std::span<const std::string> texts,
                                                            const Vocabulary& vocabulary,
                                                            const CodePointBpeRules& rules) {
  return std::make_unique<CodePointBpeModel>(texts, vocabulary, rules);
}

}  // namespace sluice
