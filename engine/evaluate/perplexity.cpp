#include "engine/evaluate/perplexity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/logit_math.hpp"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

/// A window of the text: where it begins, how long it is, which tokens are scored.
struct Window {
  std::size_t begin = 0;
  std::size_t length = 0;
  std::size_t skip = 0;
};

/// softmax of a row of logits, without division: p = weights / sum.
struct Distribution {
  std::vector<float> weights;
  double log_sum = 0.0;  ///< log of the sum of exp(logit)
  double sum = 0.0;
  std::size_t top = 0;  ///< lowest id on a tie

  void set(std::span<const float> logits, std::size_t position) {
    const RowExtent extent = row_extent(logits);
    if (!extent.finite)
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("The model's logits at position {} of a window are not numbers; its "
                              "weights or its KV type can't be used.",
                              position));
    weights.resize(logits.size());
    sum = exponentials(logits, extent.max, 1.0F, weights);
    log_sum = std::log(sum) + static_cast<double>(extent.max);
    top = static_cast<std::size_t>(std::ranges::find(logits, extent.max) - logits.begin());
  }
};

double log_probability(std::span<const float> logits, const Distribution& d, TokenId token) {
  return static_cast<double>(logits[static_cast<std::size_t>(token)]) - d.log_sum;
}

/// sum p (log p - log q) = sum p (a - b) - (log_sum_a - log_sum_b), a and b the logits.
double kl_divergence(std::span<const float> a, const Distribution& p, std::span<const float> b,
                     const Distribution& q) {
  double weighted = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    weighted +=
        static_cast<double>(p.weights[i]) * (static_cast<double>(a[i]) - static_cast<double>(b[i]));
  // Rounding may leave a trace below zero.
  return std::max(0.0, weighted / p.sum - (p.log_sum - q.log_sum));
}

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

PerplexityOptions checked(PerplexityOptions o, const TokenModel& model, const TokenModel* baseline,
                          std::span<const TokenId> tokens) {
  if (o.context < 2) invalid("A window needs at least 2 tokens: one to see, one to guess.");
  if (o.context > model.context() || (baseline != nullptr && o.context > baseline->context()))
    invalid(fmt::format("A window of {} tokens is longer than the context that was set up.",
                        o.context));
  if (o.stride == 0) o.stride = std::max(o.context / 2, 1);
  if (o.stride < 1 || o.stride > o.context)
    invalid(fmt::format("The stride must lie between 1 and the context of {} tokens, not {}.",
                        o.context, o.stride));
  if (o.skip == 0) o.skip = std::max(o.context - o.stride, 1);
  if (o.skip < 1 || o.skip >= o.context)
    invalid(fmt::format("Between 1 and {} tokens of a window can be context only, not {}.",
                        o.context - 1, o.skip));
  if (o.chunk < 1) invalid("At least 1 token must be fed at a time.");
  if (tokens.size() < 2) invalid("The text has fewer than 2 tokens: there is nothing to predict.");
  if (baseline != nullptr && baseline->vocab_size() != model.vocab_size())
    invalid(fmt::format("Models with vocabularies of {} and {} tokens can't be compared.",
                        model.vocab_size(), baseline->vocab_size()));
  for (const TokenId id : tokens)
    if (id < 0 || static_cast<std::size_t>(id) >= model.vocab_size())
      invalid(fmt::format("The text holds token {}, which is not in the model's vocabulary.", id));
  return o;
}

std::vector<Window> cut(std::size_t length, const PerplexityOptions& o) {
  const auto context = static_cast<std::size_t>(o.context);
  const auto skip = static_cast<std::size_t>(o.skip);
  if (length < context) return {{0, length, std::min(skip, length - 1)}};
  std::vector<Window> windows;
  const std::size_t scored = context - skip;
  for (std::size_t begin = 0; begin + context <= length;
       begin += static_cast<std::size_t>(o.stride)) {
    windows.push_back({begin, context, skip});
    if (o.max_scored > 0 && windows.size() * scored >= static_cast<std::size_t>(o.max_scored))
      break;
  }
  return windows;
}

/// One evaluation under way.
class Evaluation {
 public:
  Evaluation(TokenModel& model, TokenModel* baseline, const PerplexityOptions& options)
      : model_(model), baseline_(baseline), options_(options) {
    if (baseline_ == nullptr) return;
    result_.baseline_score.emplace();
    result_.baseline_cost.emplace();
    result_.divergence.emplace();
  }

  void run(std::span<const TokenId> text, const Window& window) {
    const auto part = text.subspan(window.begin, window.length);
    std::vector<TokenId> tokens(part.begin(), part.end());
    if (options_.first_token >= 0) tokens[0] = options_.first_token;
    // The logits after token i predict token i + 1.
    const std::size_t first = window.skip - 1;
    const std::size_t end = window.length - 1;
    if (options_.recompute) {
      for (std::size_t i = first; i < end; ++i) score(tokens, 0, i, i + 1);
    } else {
      const auto chunk = static_cast<std::size_t>(options_.chunk);
      std::size_t fed = 0;
      for (std::size_t i = first; i < end; i += chunk) {
        const std::size_t until = std::min(i + chunk, end);
        score(tokens, fed, i, until);
        fed = until;
      }
    }
    ++result_.windows;
  }

  const PerplexityResult& result() const { return result_; }

 private:
  /// Feeds the tokens [from, end) and scores what the logits after [first, end) predict.
  void score(std::span<const TokenId> tokens, std::size_t from, std::size_t first,
             std::size_t end) {
    const auto fed = tokens.subspan(from, end - from);
    const auto feed = [&](TokenModel& model, EvaluationCost& cost) {
      const auto start = Clock::now();
      const auto logits = model.feed(fed, static_cast<Position>(from), end - first);
      cost.time += Clock::now() - start;
      cost.positions += static_cast<std::int64_t>(fed.size());
      return logits;
    };
    const std::span<const float> logits = feed(model_, result_.cost);
    std::span<const float> base;
    if (baseline_ != nullptr) base = feed(*baseline_, *result_.baseline_cost);
    const std::size_t vocab = model_.vocab_size();
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t row = (i - first) * vocab;
      compare(logits.subspan(row, vocab), base.empty() ? base : base.subspan(row, vocab), i,
              tokens[i + 1]);
    }
  }

  void compare(std::span<const float> logits, std::span<const float> base, std::size_t position,
               TokenId next) {
    own_.set(logits, position);
    result_.score.add(log_probability(logits, own_, next));
    if (base.empty()) return;
    other_.set(base, position);
    result_.baseline_score->add(log_probability(base, other_, next));
    Divergence& d = *result_.divergence;
    const double kl = kl_divergence(base, other_, logits, own_);
    ++d.count;
    d.same_top += own_.top == other_.top ? 1 : 0;
    d.kl_sum += kl;
    d.kl_max = std::max(d.kl_max, kl);
  }

  TokenModel& model_;
  TokenModel* baseline_;
  PerplexityOptions options_;
  PerplexityResult result_;
  Distribution own_;
  Distribution other_;
};

}  // namespace

double TokenScore::perplexity() const {
  return std::exp(loss());
}

double TokenScore::standard_error() const {
  if (count_ < 2) return 0.0;
  const auto n = static_cast<double>(count_);
  const double variance = std::max(0.0, squares_ / n - loss() * loss());
  return perplexity() * std::sqrt(variance / (n - 1.0));
}

double EvaluationCost::positions_per_second() const {
  const double seconds = std::chrono::duration<double>(time).count();
  return seconds > 0.0 ? static_cast<double>(positions) / seconds : 0.0;
}

PerplexityResult measure_perplexity(TokenModel& model, TokenModel* baseline,
                                    std::span<const TokenId> tokens,
                                    const PerplexityOptions& options,
                                    const PerplexityProgress& progress) {
  const PerplexityOptions settings = checked(options, model, baseline, tokens);
  const std::vector<Window> windows = cut(tokens.size(), settings);
  Evaluation evaluation(model, baseline, settings);
  std::int64_t done = 0;
  for (const Window& window : windows) {
    evaluation.run(tokens, window);
    if (progress &&
        !progress(++done, static_cast<std::int64_t>(windows.size()), evaluation.result()))
      break;
  }
  return evaluation.result();
}

}  // namespace sluice
