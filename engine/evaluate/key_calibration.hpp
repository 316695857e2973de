// From a text to the basis of a model's keys, see key_basis.hpp.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engine/base/types.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/key_basis.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

struct CalibrationOptions {
  Position context = 512;       ///< tokens of a window; windows follow one another
  std::int64_t max_tokens = 0;  ///< of the text at most; 0: all
  std::int32_t threads = 0;     ///< 0: one per physical core
};

/// Called with tokens done and in all; false ends early with what has been
/// seen.
using CalibrationProgress = std::function<bool(std::int64_t, std::int64_t)>;

/// Feeds the text and takes the principal directions of the keys of each layer
/// and KV head. Throws Error as make_cpu_backend; kInvalidArgument for a text
/// of fewer tokens than a head has elements or tokens that are not the model's.
KeyBasis calibrate_keys(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                        std::span<const TokenId> tokens, const CalibrationOptions& options,
                        const CalibrationProgress& progress = {});

}  // namespace sluice
