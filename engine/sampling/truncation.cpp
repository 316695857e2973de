#include "engine/sampling/truncation.hpp"

#include <algorithm>
#include <limits>

#include "engine/sampling/logit_math.hpp"

namespace sluice {
namespace {

/// Collects the tokens within `reach` of the largest logit.
void collect(std::span<const float> logits, float max, float reach, std::vector<Candidate>& out) {
  out.clear();
  const float lowest = max - reach;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= lowest && logits[i] > -std::numeric_limits<float>::infinity())
      out.push_back({logits[i], static_cast<TokenId>(i)});
}

/// Collects within growing reach until `enough()` holds or every token is in.
template <class Enough>
void collect_until(std::span<const float> logits, float unit, std::vector<Candidate>& out,
                   const Enough& enough) {
  const float max = *std::max_element(logits.begin(), logits.end());
  for (const float reach : {3.0F, 8.0F, 20.0F}) {
    collect(logits, max, reach * unit, out);
    if (enough()) return;
  }
  collect(logits, max, std::numeric_limits<float>::infinity(), out);
}

double mass(std::span<const Candidate> candidates, std::span<const float> weights) {
  double sum = 0;
  for (const Candidate& c : candidates)
    sum += static_cast<double>(weights[static_cast<std::size_t>(c.id)]);
  return sum;
}

/// The last of the smallest beginning, in the order of likelihood, with at least `target` of
/// mass. Halves the range that holds it until that is small enough to sort.
Candidate last_at_mass(std::span<Candidate> candidates, std::span<const float> weights,
                       double target) {
  constexpr std::ptrdiff_t kSortable = 64;
  auto low = candidates.begin();
  auto high = candidates.end();
  while (high - low > kSortable) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, more_likely);
    const double upper = mass({low, middle}, weights);
    if (upper >= target) {
      high = middle;
    } else {
      target -= upper;
      low = middle;
    }
  }
  std::sort(low, high, more_likely);
  for (auto at = low; at != high; ++at) {
    target -= static_cast<double>(weights[static_cast<std::size_t>(at->id)]);
    if (target <= 0) return *at;
  }
  return *(high - 1);  // rounding left a little over: all stay
}

/// Moves the k most likely to the front, the last of them to index k - 1.
void select(std::vector<Candidate>& candidates, std::size_t k) {
  if (k <= candidates.size())
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(k - 1),
                     candidates.end(), more_likely);
}

}  // namespace

std::vector<Candidate> most_likely(std::span<const float> logits, std::size_t n,
                                   std::vector<Candidate>& work) {
  if (n == 0 || logits.empty()) return {};
  collect_until(logits, 1.0F, work, [&] { return work.size() >= n; });
  select(work, n);
  if (work.size() > n) work.resize(n);
  std::sort(work.begin(), work.end(), more_likely);
  return {work.begin(), work.end()};
}

Truncation truncate(std::span<const float> logits, std::span<const float> weights,
                    const SamplingParams& params, std::vector<Candidate>& work) {
  Truncation result;
  if (params.min_p > 0.0F) result.min_weight = std::min(params.min_p, 1.0F);

  const bool by_count = params.top_k > 0 && static_cast<std::size_t>(params.top_k) < logits.size();
  const bool by_mass = params.top_p < 1.0F;
  if (by_count) {
    const auto k = static_cast<std::size_t>(params.top_k);
    collect_until(logits, 1.0F, work, [&] { return work.size() >= k; });
    if (work.size() >= k) {  // fewer: only tokens with a logit of minus infinity are behind
      select(work, k);
      result.last = work[k - 1];
      work.resize(k);
    }
  }
  if (by_mass) {
    const double share = std::max(0.0, static_cast<double>(params.top_p));
    double target = share * mass(work, weights);
    if (!by_count) {
      target = share * ordered_sum(weights);
      collect_until(logits, params.temperature, work,
                    [&] { return mass(work, weights) >= target; });
    }
    if (!work.empty()) result.last = last_at_mass(work, weights, target);
  }
  return result;
}

}  // namespace sluice
