// Changes to a row of logits before a token is chosen, as engine/sampling/logit_adjustments.cpp
// makes them. Counts of tokens are whole numbers: their atomics commute.
#pragma once

#include "kernels/cuda/sampling_row.hpp"

namespace sluice::kernels::cuda {

/// Adds the biases. Several of one token are added in their order, by the thread of the first.
__device__ inline void add_biases(const Row& row, const LogitBias* biases, int count) {
  for (int i = thread_x(); i < count; i += block_threads()) {
    const int token = biases[i].token;
    if (token < 0 || token >= row.vocab) continue;
    bool first = true;
    for (int j = 0; j < i && first; ++j) first = biases[j].token != token;
    if (!first) continue;
    float logit = row.logits[token];
    for (int j = i; j < count; ++j)
      if (biases[j].token == token) logit = sum(logit, biases[j].bias);
    row.logits[token] = logit;
  }
  __syncthreads();
}

/// Calls f(logit, count) once for every distinct token of `tokens`; counts are 0 before and after.
template <class F>
__device__ void for_distinct(const Row& row, const std::int32_t* tokens, int count,
                             std::int32_t* counts, const F& f) {
  for (int i = thread_x(); i < count; i += block_threads())
    if (tokens[i] >= 0 && tokens[i] < row.vocab) atomicAdd(&counts[tokens[i]], 1);
  __syncthreads();
  for (int i = thread_x(); i < count; i += block_threads()) {
    if (tokens[i] < 0 || tokens[i] >= row.vocab) continue;
    const int times = atomicExch(&counts[tokens[i]], 0);
    if (times == 0) continue;  // another thread has met it
    row.logits[tokens[i]] = f(row.logits[tokens[i]], times);
  }
  __syncthreads();
}

__device__ inline void apply_penalties(const Row& row, const RowSampling& params,
                                       const std::int32_t* history, std::int32_t* counts) {
  const int length = params.num_history;
  if (params.repetition_penalty != 1.0F) {
    const float penalty = params.repetition_penalty;
    for_distinct(row, history, length, counts, [&](float logit, int) {
      return logit > 0.0F ? __fdiv_rn(logit, penalty) : multiply(logit, penalty);
    });
  }
  if (params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F) {
    const int wanted = params.num_generated > 0 ? params.num_generated : 0;
    const int generated = wanted < length ? wanted : length;
    for_distinct(
        row, history + (length - generated), generated, counts, [&](float logit, int times) {
          const float frequency = multiply(params.frequency_penalty, static_cast<float>(times));
          return sum(logit, -sum(params.presence_penalty, frequency));
        });
  }
}

__device__ inline void ban_tokens(const Row& row, const std::int32_t* banned, int count) {
  for (int i = thread_x(); i < count; i += block_threads())
    if (banned[i] >= 0 && banned[i] < row.vocab) row.logits[banned[i]] = -infinity();
  __syncthreads();
}

}  // namespace sluice::kernels::cuda
