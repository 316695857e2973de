// config.json as GGUF metadata.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/formats/gguf_metadata.hpp"
#include "engine/formats/hf_config_file.hpp"
#include "engine/formats/hf_family.hpp"

namespace sluice {

struct HfMetadata {
  MetadataMap keys;  ///< numbers rounded to F32, as GGUF stores them
  /// Vectors that GGUF files hold as tensors: rope_freqs.weight and its like.
  std::vector<std::pair<std::string, std::vector<float>>> vectors;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t vocab_size = 0;
};

/// Two keys of our own say what GGUF has no word for: "sluice.rope_halves" (rows of q and k are
/// in the order that pairs i with i + n/2, whatever the architecture's files have) and
/// "sluice.sliding_window_all_layers" (the window holds in every layer). Throws Error: kCorrupt (a
/// value that is missing or impossible), kUnsupported (an option that would be left out).
HfMetadata read_hf_metadata(const HfConfigFile& config, const HfFamily& family);

}  // namespace sluice
