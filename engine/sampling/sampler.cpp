#include "engine/sampling/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/sampling/logit_adjustments.hpp"
#include "engine/sampling/logit_math.hpp"
#include "engine/sampling/philox.hpp"

namespace sluice {
namespace {

/// Lowest id with the largest logit.
std::size_t argmax(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// Walks the tokens that stay, in the order of their ids, until a share `u` of their mass.
std::size_t draw(std::span<const float> logits, std::span<const float> weights,
                 const Truncation& truncation, double u) {
  const auto keeps = [&](std::size_t i) {
    return truncation.keeps({logits[i], static_cast<TokenId>(i)}, weights[i]);
  };
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (keeps(i)) total += static_cast<double>(weights[i]);
  double left = u * total;
  std::size_t chosen = argmax(logits);  // always stays
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!keeps(i)) continue;
    chosen = i;
    left -= static_cast<double>(weights[i]);
    if (left < 0) break;
  }
  return chosen;
}

}  // namespace

Sampler::Sampler(std::size_t vocab_size) : weights_(vocab_size), counts_(vocab_size) {
  candidates_.reserve(vocab_size);
}

SampleOutcome Sampler::sample(const SampleRequest& request) {
  const std::span<float> logits = request.logits;
  const SamplingParams& params = *request.params;
  SampleOutcome outcome;
  if (logits.empty() || logits.size() > weights_.size()) {
    outcome.error = fmt::format("there are {} logits where the sampler expects 1 to {}",
                                logits.size(), weights_.size());
    return outcome;
  }
  if (!row_extent(logits).finite) {
    outcome.error = fmt::format(
        "the model's logits for position {} are not finite numbers; its weights may be damaged",
        request.position);
    return outcome;
  }

  adjust_logits(logits, params, request.history, request.num_generated,
                std::span(counts_).first(logits.size()));
  // From here on minus infinity is a ban. A NaN or plus infinity makes the sum unusable.
  const std::span<float> weights = std::span(weights_).first(logits.size());
  const float max = row_extent(logits).max;
  const double sum = exponentials(logits, max, 1.0F, weights);
  const bool any_nan = std::any_of(logits.begin(), logits.end(), [](float x) { return x != x; });
  if (!std::isfinite(max) || !std::isfinite(sum) || any_nan) {
    outcome.error = fmt::format(
        "the logit biases and penalties leave no finite logits for position {}; use smaller ones",
        request.position);
    return outcome;
  }
  const double log_sum = static_cast<double>(max) + std::log(sum);
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  };
  outcome.token.top_probability = static_cast<float>(1.0 / sum);
  const auto num_top = std::clamp(params.num_top_logprobs, std::int32_t{0}, kMaxTopLogprobs);
  if (num_top > 0)
    for (const Candidate& c : most_likely(logits, static_cast<std::size_t>(num_top), candidates_))
      outcome.token.top.push_back({c.id, logprob(c.logit)});

  if (request.num_generated < params.min_new_tokens) {
    ban_tokens(logits, params.banned_before_min);
    if (!std::isfinite(logits[argmax(logits)])) {
      outcome.error = fmt::format("every token is banned at position {}", request.position);
      return outcome;
    }
  }

  std::size_t chosen = argmax(logits);
  if (params.temperature > 0.0F) {
    const float inverse = std::min(1.0F / std::min(params.temperature, 1e6F), 1e30F);
    exponentials(logits, logits[chosen], inverse, weights);
    chosen = draw(logits, weights, truncate(logits, weights, params, candidates_),
                  uniform_draw(params.seed, static_cast<std::uint32_t>(request.position)));
  }
  outcome.token.id = static_cast<TokenId>(chosen);
  outcome.token.logprob = logprob(logits[chosen]);
  return outcome;
}

}  // namespace sluice
