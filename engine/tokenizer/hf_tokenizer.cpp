#include "engine/tokenizer/hf_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/tokenizer/byte_alphabet.hpp"
#include "engine/tokenizer/hf_decoder.hpp"
#include "engine/tokenizer/hf_model.hpp"
#include "engine/tokenizer/hf_normalizer.hpp"
#include "engine/tokenizer/hf_splitter.hpp"
#include "engine/tokenizer/hf_vocabulary.hpp"
#include "engine/tokenizer/utf8.hpp"
#include "engine/tokenizer/vocabulary_tokenizer.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

/// Whether a step of this type is in a part of the file.
bool has_step(element step, std::string_view list, std::string_view type, int depth = 0) {
  const auto own = text_member(step, "type");
  if (own && *own == type) return true;
  const auto inner = member(step, list);
  if (!inner || !inner->is_array() || depth > 16) return false;
  for (const element next : inner->get_array()) {
    if (has_step(next, list, type, depth + 1)) return true;
  }
  return false;
}

element require_model(const JsonFile& file) {
  const auto model = member(file.root(), "model");
  if (!model || !model->is_object()) file.corrupt("an object \"model\" is missing");
  return *model;
}

std::vector<std::string> texts_of(const Vocabulary& vocabulary) {
  std::vector<std::string> texts;
  texts.reserve(vocabulary.entries.size());
  for (const VocabularyEntry& entry : vocabulary.entries) texts.push_back(entry.text);
  return texts;
}

/// Added tokens of one kind. Those searched in normalized text are normalized themselves.
std::vector<HfAddedToken> select(const std::vector<HfAddedToken>& tokens, bool normalized,
                                 const Normalizer& normalizer) {
  std::vector<HfAddedToken> selected;
  for (const HfAddedToken& token : tokens) {
    if (token.normalized != normalized) continue;
    selected.push_back(token);
    if (normalized) selected.back().text = normalizer.apply(token.text);
    if (selected.back().text.empty()) selected.pop_back();
  }
  return selected;
}

/// The bytes of stand-ins; what is none is left out, as no token covers it.
std::string bytes_of_stand_ins(std::string_view text) {
  if (auto bytes = bytes_from_alphabet(text)) return std::move(*bytes);
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text, at));
    if (const auto bytes = bytes_from_alphabet(text.substr(at, length))) all += *bytes;
    at += length;
  }
  return all;
}

class HfTokenizer final : public VocabularyTokenizer {
 public:
  HfTokenizer(const JsonFile& file, HfVocabulary tokens)
      : VocabularyTokenizer(std::move(tokens.vocabulary)),
        texts_(texts_of(vocabulary())),
        normalizer_(read_hf_normalizer(file)),
        splitter_(file, hf_model_type(file, require_model(file)) == "BPE"),
        decoder_(file),
        raw_tokens_(select(tokens.added, false, normalizer_)),
        normalized_tokens_(select(tokens.added, true, normalizer_)) {
    const auto normalizer = member(file.root(), "normalizer");
    const bool normalizes_to_stand_ins =
        normalizer && has_step(*normalizer, "normalizers", "ByteLevel");
    const bool byte_level = splitter_.has_byte_level() || normalizes_to_stand_ins;
    model_ = make_hf_model(file, require_model(file), byte_level, mutable_vocabulary(), texts_,
                           std::move(tokens.scores));
    const bool reads_bytes = model_->description() == "byte-level BPE";
    stand_ins_to_bytes_ = reads_bytes && (splitter_.gives_stand_ins() || normalizes_to_stand_ins);
    set_token_bytes(reads_bytes);
  }

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;

  std::string description() const override {
    return fmt::format("{}, tokenizer.json, {} tokens", model_->description(), vocab_size());
  }

 protected:
  bool adds_space_prefix() const override { return decoder_.drops_first_space(); }
  void encode_plain(std::string_view text, std::vector<TokenId>& out) const override {
    encode_pieces(text, false, out);
  }

 private:
  /// Text without tokens of the first search: normalizes it, searches the others, encodes the rest.
  void encode_run(std::string_view run, bool begins_the_text, bool parse_special,
                  std::vector<TokenId>& out) const {
    if (normalizer_.empty() && normalized_tokens_.empty()) {
      encode_pieces(run, begins_the_text, out);
      return;
    }
    const std::string normalized = normalizer_.apply(run);
    normalized_tokens_.walk(
        normalized,
        [&](const HfAddedToken& token, std::size_t, std::size_t) {
          return parse_special || !token.special;
        },
        [&](std::size_t begin, std::size_t end) {
          encode_pieces(std::string_view(normalized).substr(begin, end - begin),
                        begins_the_text && begin == 0, out);
        },
        [&](const HfAddedToken& token, std::size_t, std::size_t) { out.push_back(token.id); });
  }

  void encode_pieces(std::string_view text, bool begins_the_text, std::vector<TokenId>& out) const {
    Pieces pieces = splitter_.split(text, begins_the_text);
    if (!stand_ins_to_bytes_) {
      model_->encode(pieces.list, out);
      return;
    }
    for (std::string_view& piece : pieces.list) {
      pieces.texts.push_back(bytes_of_stand_ins(piece));
      piece = pieces.texts.back();
    }
    model_->encode(pieces.list, out);
  }

  /// The bytes that each token adds to a stream. Byte-level models have set those of their tokens.
  void set_token_bytes(bool reads_bytes) {
    std::vector<VocabularyEntry>& entries = mutable_vocabulary().entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const bool from_model =
          entries[i].kind == TokenKind::kNormal || entries[i].kind == TokenKind::kUnused;
      if (entries[i].kind == TokenKind::kControl || (reads_bytes && from_model)) continue;
      entries[i].text = decoder_.token_bytes(texts_[i]);
    }
  }

  std::vector<std::string> texts_;  ///< as in the file
  Normalizer normalizer_;
  HfSplitter splitter_;
  HfDecoder decoder_;
  AddedTokenFinder raw_tokens_;
  AddedTokenFinder normalized_tokens_;
  std::unique_ptr<const PieceModel> model_;
  bool stand_ins_to_bytes_ = false;
};

std::vector<TokenId> HfTokenizer::encode(std::string_view text,
                                         const EncodeOptions& options) const {
  std::vector<TokenId> out;
  if (options.add_special) out = vocabulary().prefix;
  LiteralRanges literal(options.literal);
  LiteralRanges literal_runs(options.literal);
  raw_tokens_.walk(
      text,
      [&](const HfAddedToken& token, std::size_t begin, std::size_t end) {
        return !token.special || (options.parse_special && !literal.touches(begin, end));
      },
      [&](std::size_t begin, std::size_t end) {
        // Positions are lost once text is normalized, so literal text bars the whole run.
        const bool parse_special = options.parse_special && !literal_runs.touches(begin, end);
        encode_run(text.substr(begin, end - begin), begin == 0, parse_special, out);
      },
      [&](const HfAddedToken& token, std::size_t, std::size_t) { out.push_back(token.id); });
  if (options.add_special) {
    out.insert(out.end(), vocabulary().suffix.begin(), vocabulary().suffix.end());
  }
  return out;
}

std::string HfTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::vector<std::string> texts;
  texts.reserve(ids.size());
  for (const TokenId id : ids) {
    if (!vocabulary().contains(id) || (skip_special && is_special(id))) continue;
    const std::string& text = texts_[static_cast<std::size_t>(id)];
    const bool is_hole = text.empty() && vocabulary()[id].kind == TokenKind::kUnused;
    if (!is_hole) texts.push_back(text);
  }
  return decoder_.decode(std::move(texts));
}

std::shared_ptr<const Tokenizer> make(const JsonFile& file,
                                      const std::filesystem::path& tokenizer_json) {
  const element model = require_model(file);
  hf_model_type(file, model);
  HfVocabulary tokens = read_hf_tokens(file, model);
  read_hf_roles(file, tokenizer_json, tokens.vocabulary);
  return std::make_shared<HfTokenizer>(file, std::move(tokens));
}

}  // namespace

std::shared_ptr<const Tokenizer> read_hf_tokenizer(const std::filesystem::path& tokenizer_json) {
  return make(JsonFile(tokenizer_json), tokenizer_json);
}

std::shared_ptr<const Tokenizer> parse_hf_tokenizer(std::string_view json,
                                                    const std::filesystem::path& name) {
  return make(JsonFile(name, json), {});
}

}  // namespace sluice
