#include "engine/tokenizer/hf_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/formats/quote_text.hpp"
#include "engine/tokenizer/bpe_tokenizer.hpp"
#include "engine/tokenizer/code_point_bpe_tokenizer.hpp"
#include "engine/tokenizer/hf_json.hpp"
#include "engine/tokenizer/hf_pipeline.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

/// Places a token; ids may leave holes, but not so many that they waste memory.
void put_token(const JsonFile& file, Vocabulary& vocabulary, std::uint64_t id,
               VocabularyEntry entry, std::size_t num_listed) {
  if (id > 2 * num_listed + 1024) {
    file.corrupt(fmt::format("the id {} of token {} is far beyond the {} tokens of the file", id,
                             quote_text(entry.text), num_listed));
  }
  if (id >= vocabulary.entries.size()) {
    vocabulary.entries.resize(id + 1, {.text = {}, .kind = TokenKind::kUnused});
  }
  vocabulary.entries[id] = std::move(entry);
}

Vocabulary read_tokens(const JsonFile& file, element model) {
  Vocabulary vocabulary;
  const simdjson::dom::object listed = file.object(model, "vocab");
  simdjson::dom::array added;
  if (member(file.root(), "added_tokens")) {
    added = file.array(file.root(), "added_tokens");
  }
  // Counted one by one: the parser's own sizes end at 2^24.
  std::size_t num_listed = 0;
  for ([[maybe_unused]] const auto& field : listed) ++num_listed;
  for ([[maybe_unused]] const element token : added) ++num_listed;

  for (const auto& [text, id] : listed) {
    std::uint64_t number = 0;
    if (id.get(number) != simdjson::SUCCESS) {
      file.corrupt(fmt::format("token {} has no id", quote_text(text)));
    }
    put_token(file, vocabulary, number, {std::string(text), TokenKind::kNormal}, num_listed);
  }
  for (const element token : added) {
    const std::string text(file.text(token, "content"));
    const std::uint64_t id = file.count(token, "id");
    for (const std::string_view flag : {"lstrip", "rstrip", "single_word"}) {
      if (flag_member(token, flag, false)) {
        file.unsupported(fmt::format("the added token {} with {}", quote_text(text), flag));
      }
    }
    const bool special = flag_member(token, "special", false);
    put_token(file, vocabulary, id, {text, special ? TokenKind::kControl : TokenKind::kUserDefined},
              num_listed);
    if (!text.empty()) vocabulary.added.push_back({text, static_cast<TokenId>(id), special});
  }
  if (vocabulary.entries.empty()) file.corrupt("it lists no tokens");
  return vocabulary;
}

std::vector<std::pair<std::string, std::string>> read_merges(const JsonFile& file, element model) {
  std::vector<std::pair<std::string, std::string>> merges;
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

TokenId find_token(const Vocabulary& vocabulary, std::string_view text) {
  for (const AddedToken& token : vocabulary.added) {
    if (token.text == text) return token.id;
  }
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    if (vocabulary.entries[i].text == text) return static_cast<TokenId>(i);
  }
  return -1;
}

std::vector<TokenId> find_tokens(const JsonFile& file, const Vocabulary& vocabulary,
                                 const std::vector<std::string>& texts) {
  std::vector<TokenId> ids;
  for (const std::string& text : texts) {
    ids.push_back(find_token(vocabulary, text));
    if (ids.back() < 0) file.corrupt(fmt::format("there is no token {}", quote_text(text)));
  }
  return ids;
}

/// A token that a configuration names, as a string or an object with its content; -1 for none.
TokenId named_token(const Vocabulary& vocabulary, element config, std::string_view key) {
  auto text = text_member(config, key);
  if (!text) {
    const auto object = member(config, key);
    if (object && object->is_object()) text = text_member(*object, "content");
  }
  return text ? find_token(vocabulary, *text) : -1;
}

void read_tokenizer_config(const JsonFile& file, Vocabulary& vocabulary) {
  const element config = file.root();
  vocabulary.bos = named_token(vocabulary, config, "bos_token");
  const TokenId eos = named_token(vocabulary, config, "eos_token");
  if (eos >= 0) vocabulary.end_tokens.push_back(eos);
  // Tokenizers of the Llama class add the start token themselves, whatever tokenizer.json says.
  const auto tokenizer_class = text_member(config, "tokenizer_class");
  const bool is_llama = tokenizer_class && tokenizer_class->starts_with("Llama");
  if (is_llama && flag_member(config, "add_bos_token", false) && vocabulary.prefix.empty() &&
      vocabulary.bos >= 0) {
    vocabulary.prefix = {vocabulary.bos};
  }
}

void read_generation_config(const JsonFile& file, Vocabulary& vocabulary) {
  const auto ends = member(file.root(), "eos_token_id");
  if (!ends) return;
  const auto add = [&](element value) {
    std::int64_t id = -1;
    const bool is_number = value.get(id) == simdjson::SUCCESS;
    if (!is_number || id < 0 || static_cast<std::uint64_t>(id) >= vocabulary.entries.size()) {
      file.corrupt("eos_token_id is no token of the vocabulary");
    }
    vocabulary.end_tokens.push_back(static_cast<TokenId>(id));
  };
  if (ends->is_array()) {
    for (const element value : ends->get_array()) add(value);
  } else {
    add(*ends);
  }
}

/// Runs `read` on a file beside the tokenizer, if it is there.
template <class Read>
void read_beside(const std::filesystem::path& tokenizer_json, const char* name, Read read) {
  const std::filesystem::path path = tokenizer_json.parent_path() / name;
  std::error_code ignored;
  if (std::filesystem::is_regular_file(path, ignored)) read(JsonFile(path));
}

}  // namespace

std::shared_ptr<const Tokenizer> read_hf_tokenizer(const std::filesystem::path& tokenizer_json) {
  const JsonFile file(tokenizer_json);
  const auto model = member(file.root(), "model");
  if (!model || !model->is_object()) file.corrupt("an object \"model\" is missing");
  const std::string_view type = text_member(*model, "type").value_or("BPE");  // old files: BPE
  if (type != "BPE") file.unsupported(fmt::format("a model of the type {}", quote_text(type)));
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_member(*model, affix).value_or("").empty()) file.unsupported(affix);
  }
  const HfPipeline pipeline = read_hf_pipeline(file);
  Vocabulary vocabulary = read_tokens(file, *model);
  if (const auto unknown = text_member(*model, "unk_token")) {
    vocabulary.unknown = find_token(vocabulary, *unknown);
  }
  vocabulary.prefix = find_tokens(file, vocabulary, pipeline.first_tokens);
  vocabulary.suffix = find_tokens(file, vocabulary, pipeline.last_tokens);
  read_beside(tokenizer_json, "tokenizer_config.json",
              [&](const JsonFile& config) { read_tokenizer_config(config, vocabulary); });
  read_beside(tokenizer_json, "generation_config.json",
              [&](const JsonFile& config) { read_generation_config(config, vocabulary); });
  if (vocabulary.bos < 0 && !vocabulary.prefix.empty()) vocabulary.bos = vocabulary.prefix.front();
  add_known_turn_ends(vocabulary);

  if (pipeline.byte_level) {
    if (pipeline.replace_spaces || !pipeline.prefix.empty()) {
      file.unsupported("replaced spaces before byte-level text");
    }
    return make_bpe_tokenizer(std::move(vocabulary),
                              {.merges = read_merges(file, *model),
                               .patterns = {pipeline.patterns.begin(), pipeline.patterns.end()},
                               .ignore_merges = flag_member(*model, "ignore_merges", false),
                               .normalize_nfc = pipeline.normalize_nfc,
                               .splitting = "tokenizer.json"});
  }
  if (!pipeline.patterns.empty() || pipeline.normalize_nfc ||
      flag_member(*model, "ignore_merges", false)) {
    file.unsupported("splits or form C without byte-level text");
  }
  return make_code_point_bpe_tokenizer(
      std::move(vocabulary), {.merges = read_merges(file, *model),
                              .prefix = pipeline.prefix,
                              .replace_spaces = pipeline.replace_spaces,
                              .strip_first_space = pipeline.strip_first_space,
                              .byte_fallback = flag_member(*model, "byte_fallback", false)});
}

}  // namespace sluice
