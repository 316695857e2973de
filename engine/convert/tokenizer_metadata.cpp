#include "engine/convert/tokenizer_metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/convert/same_tokens.hpp"
#include "engine/convert/splitting_name.hpp"
#include "engine/formats/json_file.hpp"
#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/hf_tokenizer.hpp"
#include "engine/tokenizer/vocabulary.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

struct Token {
  std::string text;
  TokenKind kind = TokenKind::kUnused;
};

bool is_byte_token(std::string_view text) {
  return text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
}

/// Merges as GGUF has them: two parts with a space between.
std::vector<std::string> read_merges(const JsonFile& file, element model) {
  std::vector<std::string> merges;
  for (const element merge : file.array(model, "merges")) {
    std::string_view both;
    if (merge.get(both) == simdjson::SUCCESS) {
      merges.emplace_back(both);
      continue;
    }
    std::string_view left;
    std::string_view right;
    if (!merge.is_array() || merge.at(0).get(left) != simdjson::SUCCESS ||
        merge.at(1).get(right) != simdjson::SUCCESS) {
      file.corrupt(fmt::format("merge {} is not a pair of strings", merges.size()));
    }
    merges.push_back(fmt::format("{} {}", left, right));
  }
  return merges;
}

class VocabularyWriter {
 public:
  VocabularyWriter(const JsonFile& file, std::int64_t vocab_size)
      : file_(file), tokens_(static_cast<std::size_t>(vocab_size)) {
    const auto model = member(file.root(), "model");
    if (!model || !model->is_object()) file.corrupt("an object \"model\" is missing");
    model_ = *model;
    byte_fallback_ = flag_member(model_, "byte_fallback", false);
    read_tokens();
  }

  element model() const { return model_; }
  bool byte_fallback() const { return byte_fallback_; }

  void write_tokens(MetadataMap& keys) const {
    std::vector<std::string> texts;
    std::vector<std::int64_t> kinds;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      // Rows of the embedding that no token uses need names of their own.
      const bool named = !tokens_[i].text.empty();
      texts.push_back(named ? tokens_[i].text : fmt::format("[PAD{}]", i));
      kinds.push_back(static_cast<std::int64_t>(tokens_[i].kind));
    }
    keys.insert_or_assign("tokenizer.ggml.tokens", std::move(texts));
    keys.insert_or_assign("tokenizer.ggml.token_type", std::move(kinds));
  }

  /// SentencePiece merges the pair whose result has the highest score: the earlier a merge, the
  /// higher. Tokens that no merge makes are never wanted.
  void write_scores(const std::vector<std::string>& merges, MetadataMap& keys) const {
    std::unordered_map<std::string, double> score_of;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      std::string text = merges[rank];
      // The parts have no space of their own: it is written as a mark.
      if (const std::size_t space = text.find(' ', 1); space != std::string::npos) {
        text.erase(space, 1);
      }
      score_of.emplace(std::move(text), -static_cast<double>(rank));
    }
    constexpr double kNever = -1e9;
    std::vector<double> scores;
    for (const Token& token : tokens_) {
      const auto found = score_of.find(token.text);
      const bool merged = token.kind == TokenKind::kNormal || token.kind == TokenKind::kUserDefined;
      scores.push_back(found != score_of.end() ? found->second : (merged ? kNever : 0.0));
    }
    keys.insert_or_assign("tokenizer.ggml.scores", std::move(scores));
  }

 private:
  void put(std::uint64_t id, std::string_view text, TokenKind kind) {
    if (id >= tokens_.size()) {
      file_.corrupt(fmt::format("token {} has the id {}, but the embedding has {} rows",
                                quote_text(text), id, tokens_.size()));
    }
    tokens_[id] = {std::string(text), kind};
  }

  /// Added words are found in text before spaces become marks, so one with marks is found by
  /// merging or not at all.
  TokenKind added_kind(std::string_view text, bool special) const {
    if (special) return TokenKind::kControl;
    const bool has_mark = text.find("\u2581") != std::string_view::npos;
    return byte_fallback_ && has_mark ? TokenKind::kNormal : TokenKind::kUserDefined;
  }

  void read_tokens() {
    for (const auto& [text, value] : file_.object(model_, "vocab")) {
      std::uint64_t id = 0;
      if (value.get(id) != simdjson::SUCCESS) {
        file_.corrupt(fmt::format("token {} has no id", quote_text(text)));
      }
      put(id, text, byte_fallback_ && is_byte_token(text) ? TokenKind::kByte : TokenKind::kNormal);
    }
    if (member(file_.root(), "added_tokens")) {
      for (const element token : file_.array(file_.root(), "added_tokens")) {
        const std::string_view text = file_.text(token, "content");
        put(file_.count(token, "id"), text, added_kind(text, flag_member(token, "special", false)));
      }
    }
    const auto unknown = text_member(model_, "unk_token");
    for (Token& token : tokens_) {
      if (unknown && token.text == *unknown) token.kind = TokenKind::kUnknown;
    }
  }

  const JsonFile& file_;
  element model_;
  bool byte_fallback_ = false;
  std::vector<Token> tokens_;
};

/// Start and end tokens, as the tokenizer puts them.
void write_roles(const Tokenizer& tokenizer, MetadataMap& keys) {
  const auto set = [&](std::string_view name, MetadataValue value) {
    keys.insert_or_assign(fmt::format("tokenizer.ggml.{}", name), std::move(value));
  };
  // All ends of turns must survive; readers know three keys, and the usual texts by themselves.
  const auto eos_key = keys.find("tokenizer.ggml.eos_token_id");
  const auto* eos = eos_key == keys.end() ? nullptr : std::get_if<std::int64_t>(&eos_key->second);
  std::vector<std::int64_t> ends;
  for (const TokenId id : tokenizer.end_tokens()) {
    if (eos == nullptr || id != *eos) ends.push_back(id);
  }
  std::vector<std::string_view> free_keys = {"eot_token_id", "eom_token_id"};
  if (eos == nullptr) free_keys.insert(free_keys.begin(), "eos_token_id");
  for (std::size_t i = 0; i < std::min(ends.size(), free_keys.size()); ++i) {
    set(free_keys[i], ends[i]);
  }
  if (tokenizer.bos() >= 0) set("bos_token_id", std::int64_t{tokenizer.bos()});
  const std::vector<TokenId> around = tokenizer.encode("", {.add_special = true});
  set("add_bos_token", !around.empty() && around.front() == tokenizer.bos());
  set("add_eos_token", !around.empty() && around.back() != tokenizer.bos());
}

bool is_byte_level(const JsonFile& file) {
  const auto names_byte_level = [](const auto& self, element step) -> bool {
    if (!step.is_object()) return false;
    if (text_member(step, "type") == "ByteLevel") return true;
    for (const std::string_view list : {"pretokenizers", "decoders"}) {
      const auto steps = member(step, list);
      if (!steps || !steps->is_array()) continue;
      for (const element inner : steps->get_array()) {
        if (self(self, inner)) return true;
      }
    }
    return false;
  };
  for (const std::string_view part : {"pre_tokenizer", "decoder"}) {
    const auto step = member(file.root(), part);
    if (step && names_byte_level(names_byte_level, *step)) return true;
  }
  return false;
}

[[noreturn]] void differs(const JsonFile& file, const std::string& text) {
  file.unsupported(fmt::format("rules that a GGUF file has no words for (they show in the text {})",
                               quote_text(text)));
}

/// Byte-level BPE: the merges, and a name for the rules that cut text before them.
void write_byte_level(const JsonFile& file, const VocabularyWriter& vocabulary,
                      const Tokenizer& original, MetadataMap& keys) {
  keys.insert_or_assign("tokenizer.ggml.model", std::string("gpt2"));
  keys.insert_or_assign("tokenizer.ggml.merges", read_merges(file, vocabulary.model()));
  std::optional<std::string> difference;
  for (const std::string_view name : splitting_names(file)) {
    keys.insert_or_assign("tokenizer.ggml.pre", std::string(name));
    const auto different = first_different_text(original, keys);
    if (!different) return;
    if (!difference) difference = different;  // of the likeliest name
  }
  differs(file, difference.value_or(""));
}

/// BPE on characters with byte tokens for the rest, as SentencePiece has it.
void write_sentence_piece(const JsonFile& file, const VocabularyWriter& vocabulary,
                          const Tokenizer& original, MetadataMap& keys) {
  if (!vocabulary.byte_fallback()) file.unsupported("BPE on characters without byte tokens");
  keys.insert_or_assign("tokenizer.ggml.model", std::string("llama"));
  keys.insert_or_assign("tokenizer.ggml.pre", std::string("default"));
  vocabulary.write_scores(read_merges(file, vocabulary.model()), keys);
  std::optional<std::string> difference;
  for (const bool space : {true, false}) {
    keys.insert_or_assign("tokenizer.ggml.add_space_prefix", space);
    difference = first_different_text(original, keys);
    if (!difference) return;
  }
  differs(file, *difference);
}

}  // namespace

void add_tokenizer_metadata(const std::filesystem::path& tokenizer_json, std::int64_t vocab_size,
                            MetadataMap& keys) {
  const JsonFile file(tokenizer_json);
  const std::shared_ptr<const Tokenizer> original = read_hf_tokenizer(tokenizer_json);
  const VocabularyWriter vocabulary(file, vocab_size);
  const std::string_view type = text_member(vocabulary.model(), "type").value_or("BPE");
  if (type != "BPE") file.unsupported(fmt::format("a GGUF form of the type {}", quote_text(type)));
  vocabulary.write_tokens(keys);
  write_roles(*original, keys);
  if (is_byte_level(file)) {
    write_byte_level(file, vocabulary, *original, keys);
  } else {
    write_sentence_piece(file, vocabulary, *original, keys);
  }
}

}  // namespace sluice
