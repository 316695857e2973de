#include "engine/tokenizer/hf_model.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/byte_bpe_model.hpp"
#include "engine/tokenizer/code_point_bpe_model.hpp"
#include "engine/tokenizer/unigram_model.hpp"
#include "engine/tokenizer/word_piece_model.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;
using Merges = std::vector<std::pair<std::string, std::string>>;

/// A merge reads "left right" or ["left", "right"].
Merges read_merges(const JsonFile& file, element model) {
  Merges merges;
  for (const element merge : file.array(model, "merges")) {
    std::string_view left;
    std::string_view right;
    if (merge.is_array()) {
      if (merge.at(0).get(left) != simdjson::SUCCESS ||
          merge.at(1).get(right) != simdjson::SUCCESS) {
        file.corrupt(fmt::format("merge {} is not a pair of strings", merges.size()));
      }
    } else {
      std::string_view both;
      const bool is_text = merge.get(both) == simdjson::SUCCESS;
      const std::size_t space = is_text ? both.find(' ', 1) : std::string_view::npos;
      if (space == std::string_view::npos) {
        file.corrupt(fmt::format("merge {} is not two parts with a space between", merges.size()));
      }
      left = both.substr(0, space);
      right = both.substr(space + 1);
    }
    merges.emplace_back(left, right);
  }
  return merges;
}

std::string optional_text(element model, std::string_view key) {
  return std::string(text_member(model, key).value_or(""));
}

TokenId unknown_token(element model, const Vocabulary& vocabulary) {
  const auto text = text_member(model, "unk_token");
  return text ? find_hf_token(vocabulary, *text) : -1;
}

void refuse_dropout(const JsonFile& file, element model) {
  double dropout = 0.0;
  const auto value = member(model, "dropout");
  if (value && value->get(dropout) == simdjson::SUCCESS && dropout != 0.0) {
    file.unsupported("random merges (dropout)");
  }
}

std::unique_ptr<const PieceModel> make_bpe(const JsonFile& file, element model, bool byte_level,
                                           Vocabulary& vocabulary,
                                           std::span<const std::string> texts) {
  refuse_dropout(file, model);
  const bool ignore_merges = flag_member(model, "ignore_merges", false);
  const std::string inner_prefix = optional_text(model, "continuing_subword_prefix");
  const std::string end_suffix = optional_text(model, "end_of_word_suffix");
  if (byte_level && inner_prefix.empty() && end_suffix.empty()) {
    return make_byte_bpe_model(
        vocabulary, {.merges = read_merges(file, model), .ignore_merges = ignore_merges});
  }
  return make_code_point_bpe_model(texts, vocabulary,
                                   {.merges = read_merges(file, model),
                                    .inner_prefix = inner_prefix,
                                    .end_suffix = end_suffix,
                                    .byte_fallback = flag_member(model, "byte_fallback", false),
                                    .fuse_unknown = flag_member(model, "fuse_unk", false),
                                    .ignore_merges = ignore_merges,
                                    .unknown = vocabulary.unknown});
}

std::unique_ptr<const PieceModel> make_unigram(const JsonFile& file, element model,
                                               Vocabulary& vocabulary,
                                               std::span<const std::string> texts,
                                               std::vector<double> scores) {
  for (const double score : scores) {
    if (!std::isfinite(score)) file.corrupt("a score of the vocabulary is not a number");
  }
  if (member(model, "unk_id")) {
    const std::uint64_t unknown = file.count(model, "unk_id");
    if (unknown >= vocabulary.entries.size()) file.corrupt("\"unk_id\" is no token");
    vocabulary.unknown = static_cast<TokenId>(unknown);
  }
  return make_unigram_model(texts, vocabulary,
                            {.scores = std::move(scores),
                             .unknown = vocabulary.unknown,
                             .byte_fallback = flag_member(model, "byte_fallback", false)});
}

}  // namespace

std::string_view hf_model_type(const JsonFile& file, element model) {
  const auto type = text_member(model, "type");
  if (!type) {
    const auto vocab = member(model, "vocab");
    if (vocab && vocab->is_array() && !member(model, "merges") && member(model, "unk_id")) {
      return "Unigram";
    }
    return member(model, "max_input_chars_per_word") ? "WordPiece" : "BPE";
  }
  for (const std::string_view known : {"BPE", "Unigram", "WordPiece", "WordLevel"}) {
    if (*type == known) return known;
  }
  file.unsupported(fmt::format("a model of the type {}", quote_text(*type)));
}

std::unique_ptr<const PieceModel> make_hf_model(const JsonFile& file, element model,
                                                bool byte_level, Vocabulary& vocabulary,
                                                std::span<const std::string> texts,
                                                std::vector<double> scores) {
  const std::string_view type = hf_model_type(file, model);
  if ((type == "Unigram") != !scores.empty()) {
    file.corrupt("its \"vocab\" is not what a model of its type has");
  }
  if (type == "Unigram") return make_unigram(file, model, vocabulary, texts, std::move(scores));
  vocabulary.unknown = unknown_token(model, vocabulary);
  if (type == "WordLevel") return make_word_level_model(texts, vocabulary);
  if (type == "WordPiece") {
    WordPieceRules rules;
    rules.unknown = vocabulary.unknown;
    if (const auto prefix = text_member(model, "continuing_subword_prefix")) {
      rules.inner_prefix = *prefix;
    }
    if (member(model, "max_input_chars_per_word")) {
      rules.longest_word = file.count(model, "max_input_chars_per_word");
    }
    return make_word_piece_model(texts, vocabulary, rules);
  }
  return make_bpe(file, model, byte_level, vocabulary, texts);
}

}  // namespace sluice
