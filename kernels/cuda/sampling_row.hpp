// What a block needs while it samples one row, and its steps. Each step is called by all threads of
// the block, and ends with every thread knowing the result.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/sampling_math.hpp"

namespace sluice::kernels::cuda {

inline constexpr int kSamplingThreads = 256;
inline constexpr int kSamplingWarps = kSamplingThreads / kWarp;
inline constexpr int kBins = 256;

/// A token in the order of likelihood: larger logits first, lower ids first among equals.
struct Choice {
  float logit;
  int id;  ///< -1: none
};
__device__ inline bool more_likely(const Choice& a, const Choice& b) {
  if (a.id < 0 || b.id < 0) return a.id >= 0;
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

struct SamplingWork {
  Choice* choices;    ///< [warps]
  double* sums;       ///< [warps]
  Mass* masses;       ///< [bins]
  unsigned* counts;   ///< [bins]
  Mass* warp_masses;  ///< [warps]
  Mass* found;        ///< [4]: what one thread tells all

  __device__ explicit SamplingWork(SharedMemory& shared)
      : choices(shared.take<Choice>(kSamplingWarps)),
        sums(shared.take<double>(kSamplingWarps)),
        masses(shared.take<Mass>(kBins)),
        counts(shared.take<unsigned>(kSamplingWarps)),
        warp_masses(shared.take<Mass>(kSamplingWarps)),
        found(shared.take<Mass>(4)) {}

  static constexpr std::size_t shared_size() {
    return shared_bytes<Choice>(kSamplingWarps) + shared_bytes<double>(kSamplingWarps) +
           shared_bytes<Mass>(kBins) + shared_bytes<unsigned>(kSamplingWarps) +
           shared_bytes<Mass>(kSamplingWarps) + shared_bytes<Mass>(4);
  }
};

/// One row of logits.
struct Row {
  float* logits;
  int vocab;
};

__device__ inline Choice better_in_warp(Choice mine) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Choice other{__shfl_xor_sync(kAllLanes, mine.logit, step),
                       __shfl_xor_sync(kAllLanes, mine.id, step)};
    if (more_likely(other, mine)) mine = other;
  }
  return mine;
}

/// The most likely token of those behind `after` in the order of likelihood (after.id < 0: of
/// all); minus infinity and NaN do not count.
__device__ inline Choice most_likely(const Row& row, const Choice& after, SamplingWork& work) {
  Choice best{0.0F, -1};
  for (int i = thread_x(); i < row.vocab; i += kSamplingThreads) {
    const Choice here{row.logits[i], i};
    if (!(here.logit > -infinity())) continue;
    if (after.id >= 0 && !more_likely(after, here)) continue;
    if (more_likely(here, best)) best = here;
  }
  best = better_in_warp(best);
  __syncthreads();
  if (lane_index() == 0) work.choices[warp_index()] = best;
  __syncthreads();
  best = work.choices[0];
  for (int i = 1; i < kSamplingWarps; ++i)
    if (more_likely(work.choices[i], best)) best = work.choices[i];
  return best;
}

/// Whether `predicate` holds for the logit of any token.
template <class Predicate>
__device__ bool any_logit(const Row& row, SamplingWork& work, const Predicate& predicate) {
  double here = 0.0;
  for (int i = thread_x(); i < row.vocab; i += kSamplingThreads)
    if (predicate(row.logits[i])) here = 1.0;
  return block_sum(here, work.sums) > 0.0;
}

/// Sum of exp(logit - max).
__device__ inline double sum_of_exponentials(const Row& row, float max, SamplingWork& work) {
  double here = 0.0;
  for (int i = thread_x(); i < row.vocab; i += kSamplingThreads)
    here += static_cast<double>(exp_nonpositive(sum(row.logits[i], -max)));
  return block_sum(here, work.sums);
}

/// exp((logit - max) / temperature): what a token weighs in the draw.
struct Weighing {
  float max;
  float inverse_temperature;

  __device__ float weight(float logit) const {
    return exp_nonpositive(multiply(sum(logit, -max), inverse_temperature));
  }
};

/// Which tokens stay: not behind `last`, and of at least min_weight.
struct Cut {
  Choice last;  ///< id < 0: all
  float min_weight;

  __device__ bool keeps(const Choice& choice, float weight) const {
    return weight > 0.0F && weight >= min_weight && (last.id < 0 || !more_likely(last, choice));
  }
};

// In sampling_adjust.hpp, sampling_cut.hpp, sampling_draw.hpp: the steps.

}  // namespace sluice::kernels::cuda
