// The model families that Hugging Face folders hold, and what each is called in GGUF.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/formats/hf_config_file.hpp"

namespace sluice {

/// What has to be done to a tensor to get the form that GGUF files have.
enum class HfTransform : std::uint8_t {
  kNone,
  kAddOne,      ///< norm weights stored less one; becomes F32
  kTranspose,   ///< a matrix stored [in, out]
  kSplitHeads,  ///< q, k and v of one head together; becomes all of q, then k, then v
  kFlatten,     ///< one row, becomes a vector
  kDrop,        ///< computed from the configuration, or of no use
};

/// Name of one tensor in both forms, without ".weight" and ".bias" and without "layers.N.". A "#"
/// stands for the number of an expert. With an encoder the names are whole, and a "#" stands for
/// the number of the layer.
struct HfTensorRule {
  std::string_view hf;
  std::string_view gguf;
  HfTransform transform = HfTransform::kNone;  ///< of the weight; of the bias only kSplitHeads
};

/// Which layers see only a window of positions.
enum class HfWindow : std::uint8_t {
  kNone,
  kAllLayers,  ///< "sliding_window", when it is set
  kAskedFor,   ///< likewise, only with "use_sliding_window"
  kTwo,        ///< every second layer is full; GGUF readers know
  kFour,       ///< every fourth
  kSix,        ///< every sixth
  kListed,     ///< as "layer_types" say, also in GGUF
};

enum class HfActivation : std::uint8_t { kSilu, kGelu };

struct HfFamily {
  std::string_view model_type;    ///< in config.json
  std::string_view class_name;    ///< in "architectures" of config.json
  std::string_view architecture;  ///< general.architecture of GGUF
  std::span<const HfTensorRule> rules;
  std::optional<bool> tied;  ///< when the configuration does not say; empty: by presence
  bool halves = false;       ///< q and k have another order of rows than in GGUF
  bool norms_less_one = false;
  bool has_rope = true;
  HfWindow window = HfWindow::kNone;
  HfActivation activation = HfActivation::kSilu;
  std::int64_t default_head_dim = 0;  ///< 0: hidden size / heads
  bool encoder = false;               ///< an encoder and a decoder, see hf_encoder.hpp
};

/// The family that a configuration names. Throws Error(kUnsupported), with the list of those
/// known, for any other.
const HfFamily& find_hf_family(const HfConfigFile& config);

/// All model types, comma-separated.
std::string known_hf_families();

}  // namespace sluice
