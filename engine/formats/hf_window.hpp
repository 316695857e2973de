// Sliding windows of config.json as GGUF has them.
#pragma once

#include <cstdint>

#include "engine/formats/hf_config_file.hpp"
#include "engine/formats/hf_family.hpp"
#include "engine/formats/hf_metadata_writer.hpp"

namespace sluice {

/// Throws Error: kCorrupt, kUnsupported (kinds of layers other than full and sliding attention).
void read_hf_window(const HfConfigFile& config, const HfFamily& family, std::int64_t num_layers,
                    std::int64_t context_length, HfMetadataWriter& out);

}  // namespace sluice
