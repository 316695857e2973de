// Top-k and top-p: a cut in the order of likelihood, found without sorting.
//
// A search goes by digits of a key: of a first, coarse one (how far below the largest logit), then
// of the four bytes of the logit's order key. Each pass sums what the tokens of each digit amount
// to, walks the bins from the most likely on until the target is reached, and goes on inside that
// bin. Amounts are whole numbers, so that atomics in shared memory give the same every time.
#pragma once

#include "kernels/cuda/sampling_row.hpp"

namespace sluice::kernels::cuda {

/// The coarse digit: 255 for the largest logits, less for smaller ones, in steps of 1 / 16 of a
/// unit of temperature. Never grows when the logit falls.
__device__ inline int coarse_digit(const Weighing& weighing, float logit) {
  const float distance =
      multiply(multiply(sum(weighing.max, -logit), weighing.inverse_temperature), 16.0F);
  return distance >= 255.0F ? 0 : 255 - static_cast<int>(distance);
}

/// Adds up amount(token, weight) by digit(token) over tokens that `in` holds for.
template <class In, class Digit, class Amount>
__device__ void fill_bins(const Row& row, SamplingWork& work, const In& in, const Digit& digit,
                          const Amount& amount) {
  for (int i = thread_x(); i < kBins; i += block_threads()) work.masses[i] = 0;
  __syncthreads();
  for_each_logit(row, [&](float logit, int id) {
    const Choice here{logit, id};
    if (!(logit > -infinity()) || !in(here)) return;
    const Mass mass = amount(here);
    if (mass > 0) atomicAdd(&work.masses[digit(here)], mass);
  });
  __syncthreads();
}

/// The largest digit down to which the bins reach `target`, and what lies above it; digit -1: all
/// bins together are less.
struct Bin {
  int digit;
  Mass above;
};
__device__ inline Bin bin_at(SamplingWork& work, Mass target) {
  if (thread_x() == 0) {
    Mass above = 0;
    int digit = kBins - 1;
    while (digit >= 0 && above + work.masses[digit] < target) above += work.masses[digit--];
    work.found[0] = static_cast<Mass>(digit + 1);
    work.found[1] = above;
  }
  __syncthreads();
  const Bin bin{static_cast<int>(work.found[0]) - 1, work.found[1]};
  __syncthreads();
  return bin;
}

/// Lowest id with `key` so that `count` ids with it are not above; count at least 1.
__device__ inline int nth_with_key(const Row& row, SamplingWork& work, unsigned key,
                                   unsigned count) {
  // Tokens of one key are few, but for flat logits: walk windows of a block in the order of ids.
  unsigned before = 0;
  for (int first = 0; first < row.vocab; first += block_threads()) {
    const int i = first + thread_x();
    const bool match = i < row.vocab && order_key(row.logits[i]) == key;
    const unsigned votes = __ballot_sync(kAllLanes, match);
    __syncthreads();
    if (lane_index() == 0) work.counts[warp_index()] = static_cast<unsigned>(__popc(votes));
    if (thread_x() == 0) work.found[0] = 0;
    __syncthreads();
    unsigned mine = before + static_cast<unsigned>(__popc(votes & ((2U << lane_index()) - 1U)));
    for (int warp = 0; warp < warp_index(); ++warp) mine += work.counts[warp];
    if (match && mine == count) work.found[0] = static_cast<Mass>(i) + 1;
    for (int warp = 0; warp < block_warps(); ++warp) before += work.counts[warp];
    __syncthreads();
    if (work.found[0] != 0) return static_cast<int>(work.found[0]) - 1;
  }
  return row.vocab - 1;
}

/// The last token of the smallest beginning, in the order of likelihood and among those `in` holds
/// for, whose amounts reach `target`; id -1: all together do not. Equal logits have equal amounts.
template <class In, class Amount>
__device__ Choice last_at(const Row& row, const Weighing& weighing, SamplingWork& work, Mass target,
                          const In& in, const Amount& amount) {
  fill_bins(
      row, work, in, [&](const Choice& c) { return coarse_digit(weighing, c.logit); }, amount);
  const Bin coarse = bin_at(work, target);
  if (coarse.digit < 0) return {0.0F, -1};
  target -= coarse.above;
  unsigned key = 0;
  for (int byte = 3; byte >= 0; --byte) {
    const int shift = 8 * byte;
    const auto in_prefix = [&](const Choice& c) {
      if (coarse_digit(weighing, c.logit) != coarse.digit || !in(c)) return false;
      return byte == 3 || order_key(c.logit) >> (shift + 8) == key >> (shift + 8);
    };
    fill_bins(
        row, work, in_prefix,
        [&](const Choice& c) { return static_cast<int>(order_key(c.logit) >> shift & 0xFFU); },
        amount);
    const Bin bin = bin_at(work, target);
    key |= static_cast<unsigned>(bin.digit < 0 ? 0 : bin.digit) << shift;
    target -= bin.above;
  }
  const unsigned bits = (key & 0x80000000U) != 0 ? key & 0x7FFFFFFFU : ~key;
  const float logit = __uint_as_float(bits);
  const Mass each = amount({logit, 0});
  const Mass count = each > 0 ? (target + each - 1) / each : 1;
  return {logit, nth_with_key(row, work, key, static_cast<unsigned>(count < 1 ? 1 : count))};
}

/// What stays of a row by top-k, top-p and min-p, as truncate() in engine/sampling.
__device__ inline Cut find_cut(const Row& row, const RowSampling& params, const Weighing& weighing,
                               SamplingWork& work) {
  Cut cut{{0.0F, -1}, 0.0F};
  if (params.min_p > 0.0F) cut.min_weight = params.min_p < 1.0F ? params.min_p : 1.0F;
  if (params.top_k > 0 && params.top_k < row.vocab) {
    const auto all = [](const Choice&) { return true; };
    cut.last = last_at(row, weighing, work, static_cast<Mass>(params.top_k), all,
                       [](const Choice&) { return Mass{1}; });
  }
  if (params.top_p < 1.0F) {
    const Cut by_count = cut;
    const auto stays = [&](const Choice& c) {
      return by_count.last.id < 0 || !more_likely(by_count.last, c);
    };
    const auto mass = [&](const Choice& c) { return mass_of(weighing.weight(c.logit)); };
    Mass here = 0;
    for_each_logit(row, [&](float logit, int id) {
      const Choice c{logit, id};
      if (logit > -infinity() && stays(c)) here += mass(c);
    });
    const Mass total = block_sum(here, work.warp_masses);
    const double share = params.top_p > 0.0F ? static_cast<double>(params.top_p) : 0.0;
    const double wanted = ceil(share * static_cast<double>(total));
    const Mass target = wanted < 1.0 ? 1 : static_cast<Mass>(wanted);
    const Choice last = last_at(row, weighing, work, target < total ? target : total, stays, mass);
    if (last.id >= 0) cut.last = last;
  }
  return cut;
}

}  // namespace sluice::kernels::cuda
