#include "engine/tokenizer/hf_vocabulary.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "engine/formats/quote_text.hpp"

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

void read_ids(const JsonFile& file, simdjson::dom::object listed, std::size_t num_listed,
              Vocabulary& vocabulary) {
  for (const auto& [text, id] : listed) {
    std::uint64_t number = 0;
    if (id.get(number) != simdjson::SUCCESS) {
      file.corrupt(fmt::format("token {} has no id", quote_text(text)));
    }
    put_token(file, vocabulary, number, {std::string(text), TokenKind::kNormal}, num_listed);
  }
}

void read_scores(const JsonFile& file, simdjson::dom::array listed, HfVocabulary& result) {
  for (const element pair : listed) {
    std::string_view text;
    double score = 0.0;
    if (pair.at(0).get(text) != simdjson::SUCCESS || pair.at(1).get(score) != simdjson::SUCCESS) {
      file.corrupt(fmt::format("token {} is not a text with a score", result.scores.size()));
    }
    result.vocabulary.entries.push_back({std::string(text), TokenKind::kNormal});
    result.scores.push_back(score);
  }
}

void read_added(const JsonFile& file, element token, std::size_t num_listed, HfVocabulary& result) {
  HfAddedToken added;
  added.text = file.text(token, "content");
  const std::uint64_t id = file.count(token, "id");
  added.special = flag_member(token, "special", false);
  added.single_word = flag_member(token, "single_word", false);
  added.takes_left = flag_member(token, "lstrip", false);
  added.takes_right = flag_member(token, "rstrip", false);
  added.normalized = flag_member(token, "normalized", !added.special);
  put_token(file, result.vocabulary, id,
            {added.text, added.special ? TokenKind::kControl : TokenKind::kUserDefined},
            num_listed);
  if (added.text.empty()) return;
  added.id = static_cast<TokenId>(id);
  result.vocabulary.added.push_back({added.text, added.id, added.special});
  result.added.push_back(std::move(added));
}

TokenId require_token(const JsonFile& file, const Vocabulary& vocabulary, std::string_view text) {
  const TokenId id = find_hf_token(vocabulary, text);
  if (id < 0) file.corrupt(fmt::format("there is no token {}", quote_text(text)));
  return id;
}

/// What goes before and after a single text.
class PostProcessorReader {
 public:
  PostProcessorReader(const JsonFile& file, Vocabulary& vocabulary)
      : file_(file), vocabulary_(vocabulary) {}

  void read() {
    if (const auto root = member(file_.root(), "post_processor")) read_step(*root, 0);
  }

 private:
  void read_step(element step, int depth) {
    constexpr int kDeepest = 16;
    const std::string_view type = file_.text(step, "type");
    if (type == "Sequence") {
      if (depth >= kDeepest) file_.corrupt("its post-processors are nested too deep");
      for (const element inner : file_.array(step, "processors")) read_step(inner, depth + 1);
    } else if (type == "TemplateProcessing") {
      read_template(step);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      vocabulary_.prefix.push_back(named(step, "cls"));
      vocabulary_.suffix.insert(vocabulary_.suffix.begin(), named(step, "sep"));
    } else if (type != "ByteLevel") {  // which only moves offsets
      file_.unsupported(fmt::format("the post-processor {}", quote_text(type)));
    }
  }

  /// A pair of text and id.
  TokenId named(element step, std::string_view key) const {
    const simdjson::dom::array pair = file_.array(step, key);
    std::string_view text;
    if (pair.at(0).get(text) != simdjson::SUCCESS) {
      file_.corrupt(fmt::format("\"{}\" is not a text with an id", key));
    }
    return require_token(file_, vocabulary_, text);
  }

  void read_template(element step) {
    bool before_text = true;
    for (const element part : file_.array(step, "single")) {
      const auto special = member(part, "SpecialToken");
      if (!special) {
        before_text = false;
        continue;
      }
      auto& ids = before_text ? vocabulary_.prefix : vocabulary_.suffix;
      append_special(step, file_.text(*special, "id"), ids);
    }
  }

  /// A name in a template stands for one token or several.
  void append_special(element step, std::string_view name, std::vector<TokenId>& ids) const {
    const auto table = member(step, "special_tokens");
    const auto entry = table ? member(*table, name) : std::nullopt;
    if (!entry) {
      ids.push_back(require_token(file_, vocabulary_, name));
      return;
    }
    for (const element value : file_.array(*entry, "ids")) {
      std::uint64_t id = 0;
      if (value.get(id) != simdjson::SUCCESS || id >= vocabulary_.entries.size()) {
        file_.corrupt(fmt::format("there is no token {}", quote_text(name)));
      }
      ids.push_back(static_cast<TokenId>(id));
    }
  }

  const JsonFile& file_;
  Vocabulary& vocabulary_;
};

/// A token that a configuration names, as a string or an object with its content; -1 for none.
TokenId named_token(const Vocabulary& vocabulary, element config, std::string_view key) {
  auto text = text_member(config, key);
  if (!text) {
    const auto object = member(config, key);
    if (object && object->is_object()) text = text_member(*object, "content");
  }
  return text ? find_hf_token(vocabulary, *text) : -1;
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

HfVocabulary read_hf_tokens(const JsonFile& file, element model) {
  HfVocabulary result;
  const auto listed = member(model, "vocab");
  if (!listed) file.corrupt("an object \"vocab\" is missing");
  std::vector<element> added;
  if (member(file.root(), "added_tokens")) {
    for (const element token : file.array(file.root(), "added_tokens")) added.push_back(token);
  }
  // Counted one by one: the parser's own sizes end at 2^24.
  std::size_t num_listed = added.size();
  if (listed->is_array()) {
    read_scores(file, file.array(model, "vocab"), result);
    num_listed += result.scores.size();
  } else {
    const simdjson::dom::object ids = file.object(model, "vocab");
    for ([[maybe_unused]] const auto& field : ids) ++num_listed;
    read_ids(file, ids, num_listed, result.vocabulary);
  }
  for (const element token : added) read_added(file, token, num_listed, result);
  if (result.vocabulary.entries.empty()) file.corrupt("it lists no tokens");
  return result;
}

TokenId find_hf_token(const Vocabulary& vocabulary, std::string_view text) {
  for (const AddedToken& token : vocabulary.added) {
    if (token.text == text) return token.id;
  }
  for (std::size_t i = 0; i < vocabulary.entries.size(); ++i) {
    if (vocabulary.entries[i].text == text) return static_cast<TokenId>(i);
  }
  return -1;
}

void read_hf_roles(const JsonFile& file, const std::filesystem::path& tokenizer_json,
                   Vocabulary& vocabulary) {
  PostProcessorReader(file, vocabulary).read();
  read_beside(tokenizer_json, "tokenizer_config.json",
              [&](const JsonFile& config) { read_tokenizer_config(config, vocabulary); });
  read_beside(tokenizer_json, "generation_config.json",
              [&](const JsonFile& config) { read_generation_config(config, vocabulary); });
  if (vocabulary.bos < 0 && !vocabulary.prefix.empty()) vocabulary.bos = vocabulary.prefix.front();
  add_known_turn_ends(vocabulary);
}

}  // namespace sluice
