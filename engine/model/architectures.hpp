// What the names in general.architecture mean: options of the one decoder graph.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/model/model_config.hpp"

namespace sluice {

/// Rope of the layers that have a window, where it differs from the others'.
enum class WindowRope {
  kSame,
  kUnscaled,  ///< without the scaling of the others
  kOwnBase,   ///< base 10000 or rope.freq_base_swa, unscaled
};

struct Architecture {
  std::string_view name;
  DecoderOptions options{};

  /// Every n-th layer (counted from 1) sees all positions, the others have the window that
  /// attention.sliding_window gives; 0: no layer has one and the key is ignored.
  std::int32_t window_period = 0;
  Position default_window = 0;  ///< where the key is missing
  WindowRope window_rope = WindowRope::kSame;
  bool rope_in_windows_only = false;  ///< layers that see all positions have no rope
  std::int32_t no_rope_period = 0;    ///< every n-th layer (counted from 1) has no rope; 0: none

  ExpertWeights expert_weights = ExpertWeights::kShareOfChosen;
  bool scaled_embedding = false;     ///< embeddings are multiplied by sqrt(hidden size)
  bool logit_scale_divides = false;  ///< the key logit_scale is a divisor
  /// The variant with so many layers scales q . k by 1 / sqrt(hidden size / heads); 0: none.
  std::int32_t layers_with_wide_scale = 0;
  /// use_parallel_residual decides whether the block is parallel.
  bool parallel_key = false;
  /// The block is parallel with a shared norm when the first layer has no norm before its
  /// feed-forward part.
  bool parallel_without_ffn_norm = false;
  bool encoder =
      false;  ///< an encoder and a decoder with relative positions, see encoder_config.hpp
};

/// All architectures that this build runs.
std::span<const Architecture> architectures();

}  // namespace sluice
