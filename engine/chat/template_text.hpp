// Where the text of a model's chat template lies.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/formats/model_source.hpp"

namespace sluice {

/// The chat template of a model, or nothing when it has none. A GGUF has it in its metadata
/// (tokenizer.chat_template, and others under tokenizer.chat_template.NAME); a Hugging Face folder
/// in chat_template.jinja, chat_template.json or tokenizer_config.json, the first of these that
/// has one. `name` picks one of several; empty: the default one. Throws Error(kCorrupt) for files
/// that are not what their names say.
std::optional<std::string> find_template_text(const ModelSource& source,
                                              std::string_view name = {});

/// The same for a folder that need not hold weights.
std::optional<std::string> find_template_in_folder(const std::filesystem::path& folder,
                                                   std::string_view name = {});

/// The template in what a user names: a .jinja file (or any other text), a JSON file with a
/// "chat_template", a Hugging Face folder, or a GGUF file. Throws Error(kNotFound) when there is
/// none, and as find_template_text.
std::string read_template_text(const std::filesystem::path& path, std::string_view name = {});

}  // namespace sluice
