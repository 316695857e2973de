#include "engine/tokenizer/bpe_tokenizer.hpp"

#include <fmt/format.h>

#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/nfc.hpp"
#include "engine/tokenizer/pre_tokenizer.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

class BpeTokenizer final : public VocabularyTokenizer {
 public:
  BpeTokenizer(Vocabulary vocabulary, const BpeRules& rules)
      : VocabularyTokenizer(std::move(vocabulary)),
        pre_tokenizer_(rules.patterns),
        normalize_nfc_(rules.normalize_nfc),
        splitting_(rules.splitting),
        warning_(rules.warning),
        model_(make_byte_bpe_model(mutable_vocabulary(), rules.model)) {}

  std::string description() const override {
    return fmt::format("{}, {} splitting, {} tokens", model_->description(), splitting_,
                       vocab_size());
  }
  std::string warning() const override { return warning_; }

 protected:
  bool adds_space_prefix() const override { return false; }

  void encode_plain(std::string_view text, std::vector<TokenId>& out) const override {
    std::vector<std::string_view> pieces;
    std::string normalized;
    if (normalize_nfc_ && may_need_nfc(text)) {
      normalized = normalize_nfc(text);
      text = normalized;
    }
    pre_tokenizer_.split(text, pieces);
    model_->encode(pieces, out);
  }

 private:
  PreTokenizer pre_tokenizer_;
  bool normalize_nfc_;
  std::string splitting_;
  std::string warning_;
  std::unique_ptr<const PieceModel> model_;
};

/// How the file's path and its rules' name are told together.
std::string unknown_rules(const ModelSource& source, const std::string& name) {
  return fmt::format(
      "{} splits text by the rules {} (tokenizer.ggml.pre), which this build does "
      "not know",
      source.path().string(), quote_text(name));
}

const PreTokenizerRules& choose_rules(const ModelSource& source, const std::string& name,
                                      const TokenizerOptions& options) {
  const PreTokenizerRules* rules = find_pre_tokenizer(name);
  if (rules == nullptr && options.allow_unknown_pre_tokenizer) {
    rules = find_pre_tokenizer("default");
  }
  if (rules != nullptr) return *rules;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}, so its tokens would be wrong; --allow-unknown-pretokenizer takes "
                          "the default rules in their place. Known are {}.",
                          unknown_rules(source, name), known_pre_tokenizers()));
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
  return std::make_shared<BpeTokenizer>(std::move(vocabulary), rules);
}

std::shared_ptr<const Tokenizer> make_bpe_tokenizer(const ModelSource& source,
                                                    const TokenizerOptions& options) {
  // Files from before the key existed were made for the default rules.
  const std::string* pre = source.get_string("tokenizer.ggml.pre");
  const std::string name = pre == nullptr ? "default" : *pre;
  const PreTokenizerRules& named = choose_rules(source, name, options);
  Vocabulary vocabulary = read_vocabulary(source, named.default_add_bos);
  const bool is_known = find_pre_tokenizer(name) != nullptr;
  const BpeRules rules = {
      .model = {.merges = read_merges(source), .ignore_merges = named.ignore_merges},
      .patterns = {named.patterns.begin(), named.patterns.end()},
      .normalize_nfc = named.normalize_nfc,
      .splitting = is_known ? name : "default (its own are unknown)",
      .warning = is_known ? std::string()
                          : unknown_rules(source, name) +
                                "; the default rules are used instead, and "
                                "its tokens may be wrong."};
  return make_bpe_tokenizer(std::move(vocabulary), rules);
}

}  // namespace sluice
