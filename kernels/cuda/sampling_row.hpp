// What a block needs while it samples one row, and its steps. Each step is called by all threads of
// the block, and ends with every thread knowing the result.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/sampling_math.hpp"

namespace sluice::kernels::cuda {

inline constexpr int kMaxSamplingThreads = 512;
inline constexpr int kMaxSamplingWarps = kMaxSamplingThreads / kWarp;
inline constexpr int kBins = 256;

/// Threads for a vocabulary: large ones are read by many, as one block has to hide the time that
/// memory takes.
constexpr int sampling_threads(int vocab) {
  return vocab <= 4096 ? 128 : kMaxSamplingThreads;
}
__device__ inline int block_warps() {
  return block_threads() / kWarp;
}

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
      : choices(shared.take<Choice>(kMaxSamplingWarps)),
        sums(shared.take<double>(kMaxSamplingWarps)),
        masses(shared.take<Mass>(kBins)),
        counts(shared.take<unsigned>(kMaxSamplingWarps)),
        warp_masses(shared.take<Mass>(kMaxSamplingWarps)),
        found(shared.take<Mass>(4)) {}

  static constexpr std::size_t shared_size() {
    return shared_bytes<Choice>(kMaxSamplingWarps) + shared_bytes<double>(kMaxSamplingWarps) +
           shared_bytes<Mass>(kBins) + shared_bytes<unsigned>(kMaxSamplingWarps) +
           shared_bytes<Mass>(kMaxSamplingWarps) + shared_bytes<Mass>(4);
  }
};

/// One row of logits.
struct Row {
  float* logits;
  int vocab;
};

/// Calls f(logit, id) for the thread's tokens, ascending; reads some at a time, so that their way
/// from memory overlaps.
template <class F>
__device__ void for_each_logit(const Row& row, const F& f) {
  constexpr int kAtOnce = 4;
  const int step = block_threads();
  int id = thread_x();
  for (; id + (kAtOnce - 1) * step < row.vocab; id += kAtOnce * step) {
    float logits[kAtOnce];
    SLUICE_UNROLL
    for (int i = 0; i < kAtOnce; ++i) logits[i] = row.logits[id + i * step];
    SLUICE_UNROLL
    for (int i = 0; i < kAtOnce; ++i) f(logits[i], id + i * step);
  }
  for (; id < row.vocab; id += step) f(row.logits[id], id);
}

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
  for_each_logit(row, [&](float logit, int id) {
    const Choice here{logit, id};
    const bool counts = logit > -infinity() && (after.id < 0 || more_likely(after, here));
    if (counts && more_likely(here, best)) best = here;
  });
  best = better_in_warp(best);
  __syncthreads();
  if (lane_index() == 0) work.choices[warp_index()] = best;
  __syncthreads();
  best = work.choices[0];
  for (int i = 1; i < block_warps(); ++i)
    if (more_likely(work.choices[i], best)) best = work.choices[i];
  return best;
}

/// Whether `predicate` holds for the logit of any token.
template <class Predicate>
__device__ bool any_logit(const Row& row, SamplingWork& work, const Predicate& predicate) {
  double here = 0.0;
  for_each_logit(row, [&](float logit, int) {
    if (predicate(logit)) here = 1.0;
  });
  return block_sum(here, work.sums) > 0.0;
}

/// Sum of exp(logit - max).
__device__ inline double sum_of_exponentials(const Row& row, float max, SamplingWork& work) {
  double here = 0.0;
  for_each_logit(row, [&](float logit, int) {
    here += static_cast<double>(exp_nonpositive(sum(logit, -max)));
  });
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
