// The sampling rules as one would write them down: sort everything, in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "engine/sampling/sampling_params.hpp"

namespace sluice::test {

struct NaiveDistribution {
  std::vector<double> logits;     ///< after bias and penalties
  std::vector<double> logprobs;   ///< of these
  std::vector<double> kept;       ///< probability in the draw, 0 for what was cut off
  double closest_cut = HUGE_VAL;  ///< how near the top-p sum or a min-p ratio was to its limit
};

inline NaiveDistribution naive_distribution(std::span<const float> raw, const SamplingParams& p,
                                            std::span<const TokenId> history,
                                            Position num_generated) {
  const std::size_t vocab = raw.size();
  NaiveDistribution d;
  d.logits.assign(raw.begin(), raw.end());
  for (const LogitBias& b : p.logit_bias)
    d.logits[static_cast<std::size_t>(b.token)] += static_cast<double>(b.bias);
  std::map<TokenId, int> seen;
  std::map<TokenId, int> generated;
  for (std::size_t i = 0; i < history.size(); ++i) {
    ++seen[history[i]];
    if (i + static_cast<std::size_t>(num_generated) >= history.size()) ++generated[history[i]];
  }
  for (const auto& [id, count] : seen) {
    double& logit = d.logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / static_cast<double>(p.repetition_penalty)
                      : logit * static_cast<double>(p.repetition_penalty);
  }
  for (const auto& [id, count] : generated)
    d.logits[static_cast<std::size_t>(id)] -=
        static_cast<double>(p.presence_penalty) + static_cast<double>(p.frequency_penalty) * count;

  const double max = *std::max_element(d.logits.begin(), d.logits.end());
  double sum = 0;
  for (const double x : d.logits) sum += std::exp(x - max);
  for (const double x : d.logits) d.logprobs.push_back(x - max - std::log(sum));

  std::vector<double> usable = d.logits;
  if (num_generated < p.min_new_tokens)
    for (const TokenId id : p.banned_before_min) usable[static_cast<std::size_t>(id)] = -HUGE_VAL;
  std::vector<std::size_t> order(vocab);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return usable[a] > usable[b]; });
  d.kept.assign(vocab, 0.0);
  if (p.temperature <= 0) {
    d.kept[order[0]] = 1;
    return d;
  }
  if (p.top_k > 0 && static_cast<std::size_t>(p.top_k) < vocab)
    order.resize(static_cast<std::size_t>(p.top_k));
  std::vector<double> weights;
  for (const std::size_t i : order)
    weights.push_back(
        std::exp((usable[i] - usable[order[0]]) / static_cast<double>(p.temperature)));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double reached = 0;
  for (std::size_t n = 0; n < order.size(); ++n) {
    if (static_cast<double>(p.top_p) < 1) {
      d.closest_cut =
          std::min(d.closest_cut, std::abs(reached / all - static_cast<double>(p.top_p)));
      if (reached >= static_cast<double>(p.top_p) * all && n > 0) break;
    }
    reached += weights[n];
    if (p.min_p > 0)
      d.closest_cut = std::min(d.closest_cut, std::abs(weights[n] - static_cast<double>(p.min_p)));
    if (weights[n] >= static_cast<double>(p.min_p)) d.kept[order[n]] = weights[n];
  }
  const double total = std::accumulate(d.kept.begin(), d.kept.end(), 0.0);
  for (double& w : d.kept) w /= total;
  return d;
}

}  // namespace sluice::test
