// What lies beside the weights of a Hugging Face folder and belongs to conversations: the chat
// template and the special tokens that it may name.
#pragma once

#include <filesystem>

#include "engine/formats/gguf_metadata.hpp"
#include "engine/formats/hf_config_file.hpp"

namespace sluice {

/// Adds tokenizer.chat_template (and tokenizer.chat_template.NAME for others than the default) and
/// tokenizer.ggml.*_token_id where the folder has them. The vocabulary stays in tokenizer.json.
/// Throws Error(kCorrupt) for broken JSON.
void read_hf_companions(const std::filesystem::path& folder, const HfConfigFile& config,
                        MetadataMap& keys);

}  // namespace sluice
