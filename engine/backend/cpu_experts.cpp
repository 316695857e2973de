// Mixture of experts (Shazeer et al. 2017): each row goes through the few experts it chose.
//
// Rows are sorted by expert, so that each expert's weights are read once a step. A row's result
// is the sum over its experts in the order of its own preference, so it does not depend on the
// other rows.
#include <array>
#include <cmath>
#include <cstring>

#include "engine/backend/cpu_feed_forward.hpp"

namespace sluice {
namespace {

/// Indices of the `used` largest scores, best first; the lower index wins a tie.
void choose_largest(const float* scores, std::size_t count, std::size_t used,
                    std::int32_t* chosen) {
  for (std::size_t rank = 0; rank < used; ++rank) {
    std::int32_t best = -1;
    for (std::size_t e = 0; e < count; ++e) {
      const auto id = static_cast<std::int32_t>(e);
      bool taken = false;
      for (std::size_t i = 0; i < rank; ++i) taken = taken || chosen[i] == id;
      if (!taken && (best < 0 || scores[e] > scores[static_cast<std::size_t>(best)])) best = id;
    }
    chosen[rank] = best;
  }
}

/// Softmax over all scores, in place.
void softmax(float* scores, std::size_t count) {
  float largest = scores[0];
  for (std::size_t i = 1; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
  float sum = 0.0F;
  for (std::size_t i = 0; i < count; ++i) {
    scores[i] = std::exp(scores[i] - largest);
    sum += scores[i];
  }
  for (std::size_t i = 0; i < count; ++i) scores[i] /= sum;
}

}  // namespace

void CpuFeedForward::run_experts(const MixtureOfExperts& moe, const float* x, std::size_t rows,
                                 float* out) {
  products_.multiply(std::array{Product{&moe.router, x, buffers_.scores, rows}});
  products_.for_each_row(rows, [&](std::size_t row) { choose_experts(row); });
  sort_by_expert(rows);
  const std::size_t used = routing_.used;
  products_.for_each_row(rows, [&](std::size_t row) {
    for (std::size_t i = row * used; i < (row + 1) * used; ++i)
      std::memcpy(buffers_.routed + routing_.place[i] * hidden_size_, x + row * hidden_size_,
                  hidden_size_ * sizeof(float));
  });
  multiply_experts(moe);
  products_.for_each_row(rows, [&](std::size_t row) {
    float* sum = out + row * hidden_size_;
    std::memset(sum, 0, hidden_size_ * sizeof(float));
    for (std::size_t i = row * used; i < (row + 1) * used; ++i)
      products_.kernels().add_scaled(sum, buffers_.routed + routing_.place[i] * hidden_size_,
                                     routing_.weight[i], hidden_size_);
  });
  if (moe.shared.up.present()) add_shared_expert(moe, x, rows, out);
}

void CpuFeedForward::choose_experts(std::size_t row) {
  const auto count = static_cast<std::size_t>(experts_.count);
  const std::size_t used = routing_.used;
  float* scores = buffers_.scores + row * count;
  std::int32_t* expert = routing_.expert.data() + row * used;
  float* weight = routing_.weight.data() + row * used;
  choose_largest(scores, count, used, expert);
  if (experts_.weights != ExpertWeights::kSoftmaxOfChosen) softmax(scores, count);
  for (std::size_t i = 0; i < used; ++i) weight[i] = scores[static_cast<std::size_t>(expert[i])];
  if (experts_.weights == ExpertWeights::kSoftmaxOfChosen) softmax(weight, used);
  if (experts_.weights != ExpertWeights::kShareOfChosen) return;
  float sum = 0.0F;
  for (std::size_t i = 0; i < used; ++i) sum += weight[i];
  for (std::size_t i = 0; i < used; ++i) weight[i] /= sum;
}

void CpuFeedForward::sort_by_expert(std::size_t rows) {
  std::vector<std::size_t>& first = routing_.first;
  first.assign(first.size(), 0);
  const std::size_t choices = rows * routing_.used;
  for (std::size_t i = 0; i < choices; ++i)
    ++first[static_cast<std::size_t>(routing_.expert[i]) + 1];
  for (std::size_t e = 1; e < first.size(); ++e) first[e] += first[e - 1];
  // Each expert's start moves on as its places are given away, up to the start of the next.
  for (std::size_t i = 0; i < choices; ++i)
    routing_.place[i] = first[static_cast<std::size_t>(routing_.expert[i])]++;
  for (std::size_t e = first.size() - 1; e > 0; --e) first[e] = first[e - 1];
  first[0] = 0;
}

void CpuFeedForward::multiply_experts(const MixtureOfExperts& moe) {
  const auto ffn = static_cast<std::size_t>(experts_.ffn_size);
  const auto for_each_busy = [&](const auto& add) {
    expert_products_.clear();
    for (std::size_t e = 0; e < moe.experts.size(); ++e) {
      const std::size_t begin = routing_.first[e];
      const std::size_t rows = routing_.first[e + 1] - begin;
      if (rows > 0) add(moe.experts[e], begin, rows);
    }
    products_.multiply(expert_products_);
  };
  for_each_busy([&](const FeedForward& expert, std::size_t begin, std::size_t rows) {
    const float* x = buffers_.routed + begin * hidden_size_;
    if (gated_) expert_products_.push_back({&expert.gate, x, buffers_.gate + begin * ffn, rows});
    expert_products_.push_back({&expert.up, x, buffers_.up + begin * ffn, rows});
  });
  products_.for_each_row(routing_.first.back(), [&](std::size_t row) {
    activate(buffers_.gate + row * ffn, buffers_.up + row * ffn, ffn);
  });
  // The rows have been read: their places take the results.
  const float* activated = gated_ ? buffers_.gate : buffers_.up;
  for_each_busy([&](const FeedForward& expert, std::size_t begin, std::size_t rows) {
    expert_products_.push_back(
        {&expert.down, activated + begin * ffn, buffers_.routed + begin * hidden_size_, rows});
  });
}

void CpuFeedForward::add_shared_expert(const MixtureOfExperts& moe, const float* x,
                                       std::size_t rows, float* out) {
  // The places of the routed rows are free again.
  float* shared = buffers_.routed;
  float* gates = buffers_.scores;
  run_dense(moe.shared, x, rows, shared);
  products_.multiply(std::array{Product{&moe.shared_gate, x, gates, rows}});
  products_.for_each_row(rows, [&](std::size_t row) {
    const float gate = 1.0F / (1.0F + std::exp(-gates[row]));
    products_.kernels().add_scaled(out + row * hidden_size_, shared + row * hidden_size_, gate,
                                   hidden_size_);
  });
}

}  // namespace sluice
