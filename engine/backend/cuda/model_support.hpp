// Which models, weights and KV types the CUDA backend computes.
#pragma once

#include <optional>
#include <string>

#include "engine/formats/dtype.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_types.hpp"

namespace sluice {

/// Empty when the CUDA backend can run it, else what is missing and what to do: one sentence
/// without a full stop. `precise`: weights are decoded to f32 first, so that any type will do.
std::string why_not_on_cuda(const ModelSource& source, const ModelConfig& config,
                            const KvTypes& kv_types, bool precise);

/// The kernels' name for a type; none when they can't read it.
std::optional<kernels::cuda::WeightType> cuda_weight_type(DType type);
/// The same for a bound matrix.
std::optional<kernels::cuda::WeightType> cuda_weight_type(const kernels::WeightMatrix& matrix);

/// The kernels' name for a KV type that why_not_on_cuda() accepts.
std::optional<kernels::cuda::KvType> cuda_kv_type(DType type);

}  // namespace sluice
