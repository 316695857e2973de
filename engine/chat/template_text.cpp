#include "engine/chat/template_text.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <system_error>

#include "engine/base/error.hpp"
#include "engine/formats/json_file.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("Cannot read {}; check the path.", path.string()));
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool is_default(std::string_view name) {
  return name.empty() || name == "default";
}

/// A "chat_template" is one text, or a list of objects with a name each.
std::optional<std::string> template_in_json(const fs::path& path, std::string_view name) {
  const JsonFile file(path);
  if (const auto text = text_member(file.root(), "chat_template")) {
    return is_default(name) ? std::optional<std::string>(*text) : std::nullopt;
  }
  const auto list = member(file.root(), "chat_template");
  if (!list) return std::nullopt;
  if (!list->is_array()) file.corrupt("\"chat_template\" is neither a text nor a list");
  for (const simdjson::dom::element entry : list->get_array()) {
    const std::string_view wanted = is_default(name) ? "default" : name;
    if (file.text(entry, "name") == wanted) return std::string(file.text(entry, "template"));
  }
  return std::nullopt;
}

std::string no_template(const fs::path& path, std::string_view name) {
  return is_default(name)
             ? fmt::format("{} has no chat template.", path.string())
             : fmt::format("{} has no chat template named {}.", path.string(), quote_text(name));
}

bool begins_with(const fs::path& path, std::string_view start) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(start.size(), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file && bytes == start;
}

}  // namespace

std::optional<std::string> find_template_text(const ModelSource& source, std::string_view name) {
  const std::string key = is_default(name) ? "tokenizer.chat_template"
                                           : fmt::format("tokenizer.chat_template.{}", name);
  if (const std::string* text = source.get_string(key)) return *text;
  std::error_code ignored;
  if (fs::is_directory(source.path(), ignored)) return find_template_in_folder(source.path(), name);
  return std::nullopt;
}

std::optional<std::string> find_template_in_folder(const fs::path& folder, std::string_view name) {
  const fs::path alone = is_default(name)
                             ? folder / "chat_template.jinja"
                             : folder / "additional_chat_templates" / fmt::format("{}.jinja", name);
  if (is_file(alone)) return read_text(alone);
  for (const char* json : {"chat_template.json", "tokenizer_config.json"}) {
    if (!is_file(folder / json)) continue;
    if (auto text = template_in_json(folder / json, name)) return text;
  }
  return std::nullopt;
}

std::string read_template_text(const fs::path& path, std::string_view name) {
  std::error_code ignored;
  std::optional<std::string> text;
  if (fs::is_directory(path, ignored)) {
    text = find_template_in_folder(path, name);
  } else if (begins_with(path, "GGUF")) {
    text = find_template_text(*open_model(path), name);
  } else if (path.extension() == ".json") {
    text = template_in_json(path, name);
  } else {
    text = read_text(path);
  }
  if (!text) throw Error(ErrorCode::kNotFound, no_template(path, name));
  return *text;
}

}  // namespace sluice
