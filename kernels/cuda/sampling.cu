// The next token of each row, by one block a row. The steps and their order are those of
// engine/sampling/sampler.cpp.
#include "kernels/cuda/sampling_adjust.hpp"
#include "kernels/cuda/sampling_cut.hpp"
#include "kernels/cuda/sampling_draw.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr int kMaxVocab = 1 << 18;  // as many weights have a sum of 62 bits

/// Writes the outcome of a row without a token.
__device__ void write_failure(const Sampling& operands, int row, SampleStatus status) {
  if (thread_x() != 0) return;
  operands.results[row].status = static_cast<std::int32_t>(status);
  if (operands.ids != nullptr) operands.ids[row] = -1;
}

/// Logarithm of a token's probability from the sum of exp(logit - max).
struct Logprobs {
  double log_sum;
  __device__ float of(float logit) const {
    return static_cast<float>(static_cast<double>(logit) - log_sum);
  }
};

__device__ void write_top(const Row& row, const Logprobs& logprobs, int wanted,
                          SampleResult& result, SamplingWork& work) {
  int count = 0;
  Choice last{0.0F, -1};
  const int most = wanted < kMaxTopLogprobs ? wanted : kMaxTopLogprobs;
  for (; count < most; ++count) {
    last = most_likely(row, last, work);
    if (last.id < 0) break;
    if (thread_x() == 0) {
      result.top_ids[count] = last.id;
      result.top_logprobs[count] = logprobs.of(last.logit);
    }
  }
  if (thread_x() == 0) result.num_top = count;
}

/// The token, by the largest logit or by a draw.
__device__ int choose(const Row& row, const RowSampling& params, const Choice& best,
                      SamplingWork& work) {
  if (!(params.temperature > 0.0F)) return best.id;
  const float temperature = params.temperature < 1e6F ? params.temperature : 1e6F;
  const float inverse = __fdiv_rn(1.0F, temperature);
  const Weighing weighing{best.logit, inverse < 1e30F ? inverse : 1e30F};
  const Cut cut = find_cut(row, params, weighing, work);
  return draw(row, params, weighing, cut, best.id, work);
}

/// Grid: (rows).
__global__ void __launch_bounds__(kMaxSamplingThreads) sample_kernel(Sampling operands) {
  SharedMemory shared;
  SamplingWork work(shared);
  const int index = block_x();
  const RowSampling params = operands.params[index];
  if (params.active == 0) return write_failure(operands, index, SampleStatus::kPadding);
  const Row row{operands.logits + offset_of(index, operands.vocab), operands.vocab};
  SampleResult& result = operands.results[index];

  if (any_logit(row, work, [](float x) { return !finite(x); }))
    return write_failure(operands, index, SampleStatus::kLogitsNotFinite);
  if (params.num_biases > 0)
    add_biases(row, operands.biases + params.first_bias, params.num_biases);
  if (params.num_history > 0)
    apply_penalties(row, params, operands.history + params.first_history,
                    operands.counts + offset_of(index, operands.vocab));

  // From here on minus infinity is a ban.
  Choice best = most_likely(row, {0.0F, -1}, work);
  const bool broken = any_logit(row, work, [](float x) { return x != x; });
  if (best.id < 0 || broken || !finite(best.logit))
    return write_failure(operands, index, SampleStatus::kAdjustedNotFinite);
  const double total = sum_of_exponentials(row, best.logit, work);
  const Logprobs logprobs{static_cast<double>(best.logit) + log(total)};
  write_top(row, logprobs, params.num_top_logprobs, result, work);
  if (params.num_banned > 0) {
    ban_tokens(row, operands.banned + params.first_banned, params.num_banned);
    best = most_likely(row, {0.0F, -1}, work);
    if (best.id < 0) return write_failure(operands, index, SampleStatus::kAllBanned);
  }
  const int chosen = choose(row, params, best, work);
  if (thread_x() != 0) return;
  result.status = static_cast<std::int32_t>(SampleStatus::kOk);
  result.id = chosen;
  result.logprob = logprobs.of(row.logits[chosen]);
  result.top_probability = static_cast<float>(1.0 / total);
  if (operands.ids != nullptr) operands.ids[index] = chosen;
}

/// Grid: (rows).
__global__ void __launch_bounds__(kMaxSamplingThreads)
    argmax_kernel(float* logits, int vocab, std::int32_t* ids) {
  SharedMemory shared;
  SamplingWork work(shared);
  const Row row{logits + offset_of(block_x(), vocab), vocab};
  const bool broken = any_logit(row, work, [](float x) { return x != x; });
  const Choice best = most_likely(row, {0.0F, -1}, work);
  if (thread_x() != 0) return;
  const int all_banned = 0;  // every logit is minus infinity: the lowest index
  ids[block_x()] = broken ? -1 : (best.id < 0 ? all_banned : best.id);
}

}  // namespace

LaunchStatus sample(const Sampling& operands, std::int32_t rows, Stream stream) {
  constexpr const char* kName = "sample";
  if (operands.logits == nullptr || operands.params == nullptr || operands.counts == nullptr ||
      operands.results == nullptr || operands.vocab < 1 || operands.vocab > kMaxVocab || rows < 0)
    return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, sample_kernel, grid_of(rows), sampling_threads(operands.vocab),
                SamplingWork::shared_size(), stream, operands);
}

LaunchStatus argmax(const float* logits, std::int32_t rows, std::int32_t vocab, std::int32_t* ids,
                    Stream stream) {
  constexpr const char* kName = "argmax";
  if (logits == nullptr || ids == nullptr || vocab < 1 || rows < 0) return bad_shape(kName);
  if (rows == 0) return nothing(kName);
  return launch(kName, argmax_kernel, grid_of(rows), sampling_threads(vocab),
                SamplingWork::shared_size(), stream, const_cast<float*>(logits), vocab, ids);
}

}  // namespace sluice::kernels::cuda
