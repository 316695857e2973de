#include "engine/tokenizer/ugm_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "engine/tokenizer/char_map.hpp"
#include "engine/tokenizer/space_mark.hpp"
#include "engine/tokenizer/token_scores.hpp"
#include "engine/tokenizer/unigram_model.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

/// How text is prepared. The names are those of the keys.
struct Rules {
  std::string char_map;  ///< precompiled_charsmap; empty: none
  bool add_space_prefix = true;
  bool remove_extra_whitespaces = true;
  bool treat_whitespace_as_suffix = false;
};

std::vector<std::string> texts_of(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  for (const VocabularyEntry& entry : vocabulary.entries) texts.push_back(entry.text);
  return texts;
}

class UgmTokenizer final : public VocabularyTokenizer {
 public:
  UgmTokenizer(Vocabulary vocabulary, const std::vector<float>& scores, Rules rules)
      : VocabularyTokenizer(std::move(vocabulary)),
        texts_(texts_of(this->vocabulary())),
        rules_(std::move(rules)),
        model_(make_unigram_model(texts_, this->vocabulary(),
                                  {.scores = {scores.begin(), scores.end()},
                                   .unknown = this->vocabulary().unknown,
                                   .byte_fallback = true})) {
    if (!rules_.char_map.empty()) char_map_.emplace(rules_.char_map);
    for (VocabularyEntry& entry : mutable_vocabulary().entries) {
      if (entry.kind == TokenKind::kByte) {
        const auto byte = byte_of_token(entry.text);
        if (byte) entry.text = std::string(1, static_cast<char>(*byte));
      } else {
        entry.text = marks_to_spaces(entry.text);
      }
    }
  }

  std::string description() const override {
    return fmt::format("SentencePiece unigram, {} tokens", vocab_size());
  }

 protected:
  bool adds_space_prefix() const override {
    return rules_.add_space_prefix && !rules_.treat_whitespace_as_suffix;
  }

  void encode_plain(std::string_view plain, std::vector<TokenId>& out) const override {
    const std::string text = prepare(plain);
    const std::string_view piece = text;
    if (!text.empty()) model_->encode({&piece, 1}, out);
  }

 private:
  /// Rewrites, marks spaces and folds runs of them.
  std::string prepare(std::string_view plain) const {
    const bool prefix = rules_.add_space_prefix && !rules_.treat_whitespace_as_suffix;
    const bool suffix = rules_.add_space_prefix && rules_.treat_whitespace_as_suffix;
    const bool fold = rules_.remove_extra_whitespaces;
    std::string out;
    bool space_waits = prefix;  // a space is due before the next character
    bool any_text = false;
    for (const char c : rewrite(plain)) {
      if (c == ' ') {
        if (!fold) out += kSpaceMark;
        if (fold && any_text) space_waits = true;
        continue;
      }
      if (space_waits) out += kSpaceMark;
      space_waits = false;
      any_text = true;
      out += c;
    }
    if (suffix) out += kSpaceMark;
    return out;
  }

  /// The longest entry of the table at each place; what no entry covers stays, and bytes that are
  /// not UTF-8 become U+FFFD.
  std::string rewrite(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const CharMap::Match match = char_map_ ? char_map_->longest(text) : CharMap::Match{};
      std::size_t size = match.size;
      if (size > 0) {
        out += match.replacement;
      } else {
        size = utf8_length(text, 0);
        out += size == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, size);
        size = std::max<std::size_t>(1, size);
      }
      text.remove_prefix(size);
    }
    return out;
  }

  std::vector<std::string> texts_;  ///< as in the file
  Rules rules_;
  std::optional<CharMap> char_map_;
  std::unique_ptr<const PieceModel> model_;
};

Rules read_rules(const ModelSource& source) {
  Rules rules;
  const auto flag = [&](const char* name, bool otherwise) {
    return source.get_bool(fmt::format("tokenizer.ggml.{}", name)).value_or(otherwise);
  };
  rules.add_space_prefix = flag("add_space_prefix", true);
  rules.remove_extra_whitespaces = flag("remove_extra_whitespaces", true);
  rules.treat_whitespace_as_suffix = flag("treat_whitespace_as_suffix", false);
  if (const auto* bytes = source.get_ints("tokenizer.ggml.precompiled_charsmap")) {
    for (const std::int64_t byte : *bytes) rules.char_map += static_cast<char>(byte & 0xFF);
  }
  return rules;
}

}  // namespace

std::shared_ptr<const Tokenizer> make_ugm_tokenizer(const ModelSource& source) {
  Vocabulary vocabulary = read_vocabulary(source, false);
  const std::vector<float> scores = read_token_scores(source, vocabulary.entries.size());
  return std::make_shared<UgmTokenizer>(std::move(vocabulary), scores, read_rules(source));
}

}  // namespace sluice
