// Rotary position settings of config.json, in their old and new style, as GGUF has them.
#pragma once

#include <cstdint>

#include "engine/formats/hf_config_file.hpp"
#include "engine/formats/hf_family.hpp"
#include "engine/formats/hf_metadata_writer.hpp"

namespace sluice {

/// Old style: "rope_theta", "rope_scaling". New style: "rope_parameters", for all layers or by
/// the kind of layer. Throws Error: kCorrupt, kUnsupported (a kind of scaling).
void read_hf_rope(const HfConfigFile& config, const HfFamily& family, std::int64_t head_dim,
                  std::int64_t context_length, HfMetadataWriter& out);

}  // namespace sluice
