#include "engine/formats/hf_companions.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/formats/mapped_file.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using simdjson::dom::element;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string read_text(const fs::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void add_template(std::string_view name, std::string_view text, MetadataMap& keys) {
  const std::string key =
      name == "default" ? std::string(kTemplateKey) : fmt::format("{}.{}", kTemplateKey, name);
  keys.insert_or_assign(key, std::string(text));
}

/// "chat_template" is one text or a list of {"name", "template"}.
void add_templates_of(element object, MetadataMap& keys) {
  if (const auto text = text_member(object, "chat_template")) add_template("default", *text, keys);
  const auto list = member(object, "chat_template");
  if (!list || !list->is_array()) return;
  for (const element entry : list->get_array()) {
    const auto name = text_member(entry, "name");
    const auto text = text_member(entry, "template");
    if (name && text) add_template(*name, *text, keys);
  }
}

/// Later ones win: a file of its own is newer than the entry in tokenizer_config.json.
void read_templates(const fs::path& folder, const std::optional<element>& tokenizer_config,
                    MetadataMap& keys) {
  if (tokenizer_config) add_templates_of(*tokenizer_config, keys);
  if (const fs::path path = folder / "chat_template.json"; is_file(path)) {
    const JsonFile file(path);
    add_templates_of(file.root(), keys);
  }
  if (const fs::path path = folder / "chat_template.jinja"; is_file(path)) {
    add_template("default", read_text(path), keys);
  }
}

/// Id of a special token by its text, as tokenizer_config.json lists them.
std::optional<std::int64_t> listed_id(element tokenizer_config, std::string_view text) {
  const auto listed = member(tokenizer_config, "added_tokens_decoder");
  if (!listed || !listed->is_object()) return std::nullopt;
  for (const auto& [id, token] : listed->get_object()) {
    if (text_member(token, "content") != text) continue;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), value);
    if (error == std::errc() && end == id.data() + id.size()) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> token_text(element tokenizer_config, std::string_view name) {
  if (const auto text = text_member(tokenizer_config, name)) return text;
  const auto object = member(tokenizer_config, name);
  if (!object || !object->is_object()) return std::nullopt;
  return text_member(*object, "content");
}

/// The first number where a configuration has one or several.
std::optional<std::int64_t> first_id(element object, std::string_view name) {
  auto value = member(object, name);
  if (!value) return std::nullopt;
  if (value->is_array()) {
    if (value->get_array().size() == 0) return std::nullopt;
    value = value->at(0).value_unsafe();
  }
  std::int64_t id = 0;
  if (value->get(id) != simdjson::SUCCESS || id < 0) return std::nullopt;
  return id;
}

void read_special_ids(const HfConfigFile& config, const std::optional<element>& tokenizer_config,
                      MetadataMap& keys) {
  struct Role {
    std::string_view name;
    std::string_view key;
  };
  static constexpr Role kRoles[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                    {"eos_token", "tokenizer.ggml.eos_token_id"},
                                    {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                    {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kRoles) {
    std::optional<std::int64_t> id;
    if (tokenizer_config) {
      if (const auto text = token_text(*tokenizer_config, name)) {
        id = listed_id(*tokenizer_config, *text);
      }
    }
    const std::string id_name = fmt::format("{}_id", name);
    if (!id) id = first_id(config.text_part(), id_name);
    if (!id) id = first_id(config.root(), id_name);
    if (id) keys.insert_or_assign(std::string(key), *id);
  }
}

}  // namespace

void read_hf_companions(const fs::path& folder, const HfConfigFile& config, MetadataMap& keys) {
  std::optional<JsonFile> file;
  std::optional<element> tokenizer_config;
  if (const fs::path path = folder / "tokenizer_config.json"; is_file(path)) {
    file.emplace(path);
    tokenizer_config = file->root();
  }
  read_templates(folder, tokenizer_config, keys);
  read_special_ids(config, tokenizer_config, keys);
}

}  // namespace sluice
