// The draw: the first token, in the order of ids, where the mass of those that stay passes the
// drawn share of it.
#pragma once

#include "kernels/cuda/sampling_row.hpp"

namespace sluice::kernels::cuda {

/// Sums over the lanes before and with this one.
__device__ inline Mass inclusive_sum(Mass x) {
  for (int step = 1; step < kWarp; step *= 2) {
    const Mass before = __shfl_up_sync(kAllLanes, x, step);
    if (lane_index() >= step) x += before;
  }
  return x;
}

/// A token of the row; `fallback` when nothing has any mass. A warp sums a stretch of neighbouring
/// tokens; the one whose stretch holds the drawn share walks it.
__device__ inline int draw(const Row& row, const RowSampling& params, const Weighing& weighing,
                           const Cut& cut, int fallback, SamplingWork& work) {
  const auto mass_at = [&](int i) -> Mass {
    if (i >= row.vocab) return 0;
    const float weight = weighing.weight(row.logits[i]);
    return cut.keeps({row.logits[i], i}, weight) ? mass_of(weight) : 0;
  };
  const int stretch = (row.vocab + block_threads() - 1) / block_threads() * kWarp;
  const int begin = warp_index() * stretch;
  const int end = begin + stretch < row.vocab ? begin + stretch : row.vocab;
  Mass here = 0;
  SLUICE_UNROLL_4
  for (int i = begin + lane_index(); i < end; i += kWarp) here += mass_at(i);
  here = warp_sum(here);
  __syncthreads();
  if (lane_index() == 0) work.warp_masses[warp_index()] = here;
  if (thread_x() == 0) work.found[0] = static_cast<Mass>(fallback);
  __syncthreads();
  Mass total = 0;
  Mass before = 0;
  for (int warp = 0; warp < block_warps(); ++warp) {
    if (warp == warp_index()) before = total;
    total += work.warp_masses[warp];
  }
  const Mass drawn = drawn_mass(params.seed, static_cast<std::uint32_t>(params.position), total);
  if (before <= drawn && drawn < before + here) {  // this warp alone
    for (int first = begin; first < end; first += kWarp) {
      const int i = first + lane_index();
      const Mass up_to = before + inclusive_sum(i < end ? mass_at(i) : 0);
      const unsigned passed = __ballot_sync(kAllLanes, up_to > drawn);
      if (passed != 0) {
        if (lane_index() == 0)
          work.found[0] = static_cast<Mass>(first + __ffs(static_cast<int>(passed)) - 1);
        break;
      }
      before = __shfl_sync(kAllLanes, up_to, kWarp - 1);
    }
  }
  __syncthreads();
  const int chosen = static_cast<int>(work.found[0]);
  __syncthreads();
  return chosen;
}

}  // namespace sluice::kernels::cuda
