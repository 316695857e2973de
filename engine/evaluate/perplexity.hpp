// How well a model predicts a text, and how far two settings of it are apart.
//
//   perplexity    = exp(mean of -log p(token | what stands before it))
//   KL divergence = sum over the vocabulary of p log(p / q), p the baseline's, q the model's
//
// The text is cut into windows of `context` tokens that begin `stride` tokens apart; in each the
// first `skip` tokens are context only and the rest are scored.
//
// Worked example, context 512, stride 256: the windows are 0-511, 256-767, ...; skip is 256, so
// each scores its second half, and each token is scored once with at least 256 tokens before it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/base/types.hpp"
#include "engine/evaluate/token_model.hpp"

namespace sluice {

struct PerplexityOptions {
  Position context = 512;
  Position stride = 0;          ///< 0: half the context
  Position skip = 0;            ///< 0: context - stride, at least 1
  Position chunk = 256;         ///< scored tokens fed at a time; 1 is how generation feeds them
  bool recompute = false;       ///< for each scored token feed the whole window before it anew
  TokenId first_token = -1;     ///< replaces the first token of each window; -1: nothing does
  std::int64_t max_scored = 0;  ///< stop after the window that reaches it; 0: the whole text
};

/// Sums over the scored tokens.
class TokenScore {
 public:
  void add(double log_probability) {
    ++count_;
    sum_ -= log_probability;
    squares_ += log_probability * log_probability;
  }
  std::int64_t count() const { return count_; }
  /// Mean of -log p, in nats.
  double loss() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }
  double perplexity() const;
  /// Standard error of the perplexity, as if the tokens were independent.
  double standard_error() const;

 private:
  std::int64_t count_ = 0;
  double sum_ = 0.0;
  double squares_ = 0.0;
};

/// The work of one model.
struct EvaluationCost {
  std::int64_t positions = 0;  ///< token positions computed
  std::chrono::nanoseconds time{0};
  /// 0 before anything was measured.
  double positions_per_second() const;
};

/// How the model's distributions differ from the baseline's.
struct Divergence {
  std::int64_t count = 0;
  std::int64_t same_top = 0;  ///< positions whose likeliest token is the same
  double kl_sum = 0.0;        ///< nats
  double kl_max = 0.0;
  double mean_kl() const { return count == 0 ? 0.0 : kl_sum / static_cast<double>(count); }
  double top1_agreement() const {
    return count == 0 ? 0.0 : static_cast<double>(same_top) / static_cast<double>(count);
  }
};

struct PerplexityResult {
  TokenScore score;
  EvaluationCost cost;
  std::int64_t windows = 0;
  std::optional<TokenScore> baseline_score;  ///< these three with a baseline
  std::optional<EvaluationCost> baseline_cost;
  std::optional<Divergence> divergence;
};

/// Called after each window: windows done, windows in all, the result so far. False ends early.
using PerplexityProgress = std::function<bool(std::int64_t, std::int64_t, const PerplexityResult&)>;

/// Scores `tokens` with `model`; with a `baseline` (may be null) also compares the two, position
/// by position. A text shorter than the context makes one short window; the end of a longer text
/// that fills no whole window is left out. Throws Error(kInvalidArgument): options that
/// contradict each other or the models, a text of fewer than 2 tokens; Error(kCorrupt): logits
/// that are not numbers.
PerplexityResult measure_perplexity(TokenModel& model, TokenModel* baseline,
                                    std::span<const TokenId> tokens,
                                    const PerplexityOptions& options,
                                    const PerplexityProgress& progress = {});

}  // namespace sluice
