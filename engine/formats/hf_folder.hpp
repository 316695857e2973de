// A Hugging Face folder, presented with the names that GGUF files use.
//
// config.json becomes metadata ("num_hidden_layers" is "llama.block_count"), the weights get
// their GGUF names ("model.layers.0.self_attn.q_proj.weight" is "blk.0.attn_q.weight"), so that
// nothing behind ModelSource sees a difference. Weights stay where they are in their files; small
// or transposed ones are copied (norms without their "+1", the matrices of gpt2).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "engine/formats/model_source.hpp"

namespace sluice {

/// Whether `path` is a folder with a config.json, or a file of one that stands for it (weights,
/// their index, config.json); gives the folder then.
std::optional<std::filesystem::path> hf_folder_of(const std::filesystem::path& path);

/// Reads the folder and checks all of it but the weights' values. Throws Error: kNotFound, kIo,
/// kCorrupt, kUnsupported.
std::shared_ptr<const ModelSource> read_hf_folder(const std::filesystem::path& folder);

}  // namespace sluice
