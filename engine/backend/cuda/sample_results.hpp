// What the device's sampling gave, as the engine speaks of it.
#pragma once

#include <string>

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "kernels/cuda/kernels.hpp"

namespace sluice {

/// Why there is no token for `position`, in the words of Sampler; empty when there is one.
std::string sample_fault(const kernels::cuda::SampleResult& result, Position position);

SampledToken sampled_token(const kernels::cuda::SampleResult& result);

}  // namespace sluice
