// Rope and windows: which layers have which.
#pragma once

#include "engine/model/architectures.hpp"
#include "engine/model/metadata_reader.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// Fills in rope_dims, ropes and layers; the sizes must be there already.
///
/// Worked example: gemma3 with 12 layers and attention.sliding_window 1024. Layers 5 and 11 see
/// everything and use ropes[0], base 1000000; the others see 1024 positions and use ropes[1],
/// base 10000.
void read_rope_and_windows(const MetadataReader& keys, const Architecture& architecture,
                           ModelConfig& config);

}  // namespace sluice
