#include "engine/backend/cuda/sample_results.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "engine/sampling/sampler.hpp"

namespace sluice {

namespace cuda = kernels::cuda;

static_assert(cuda::kMaxTopLogprobs == kMaxTopLogprobs);

std::string sample_fault(const cuda::SampleResult& result, Position position) {
  switch (static_cast<cuda::SampleStatus>(result.status)) {
    case cuda::SampleStatus::kOk:
      return {};
    case cuda::SampleStatus::kLogitsNotFinite:
      return fmt::format(
          "the model's logits for position {} are not finite numbers; its weights may be damaged",
          position);
    case cuda::SampleStatus::kAdjustedNotFinite:
      return fmt::format(
          "the logit biases and penalties leave no finite logits for position {}; "
          "use smaller ones",
          position);
    case cuda::SampleStatus::kAllBanned:
      return fmt::format("every token is banned at position {}", position);
    default:
      return fmt::format("the device gave no token for position {}", position);
  }
}

SampledToken sampled_token(const cuda::SampleResult& result) {
  SampledToken token;
  token.id = result.id;
  token.logprob = result.logprob;
  token.top_probability = result.top_probability;
  const auto count = std::clamp<std::int32_t>(result.num_top, 0, kMaxTopLogprobs);
  for (std::int32_t i = 0; i < count; ++i)
    token.top.push_back({result.top_ids[i], result.top_logprobs[i]});
  return token;
}

}  // namespace sluice
