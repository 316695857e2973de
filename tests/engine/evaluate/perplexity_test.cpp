#include "engine/evaluate/perplexity.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>

#include "engine/base/error.hpp"
#include "engine/tokenizer/tokenizer.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::size_t kVocab = 11;

/// Logits that depend on all tokens of the window so far, and on `sharpness`.
std::vector<float> logits_after(std::span<const TokenId> tokens, float sharpness) {
  std::uint32_t seed = 17;
  for (const TokenId id : tokens) seed = seed * 31 + static_cast<std::uint32_t>(id) + 1;
  std::mt19937 random(seed);
  std::vector<float> logits(kVocab);
  for (float& x : logits)
    x = sharpness * static_cast<float>(static_cast<int>(random() % 1000) - 500) / 100.0F;
  return logits;
}

class FakeModel final : public TokenModel {
 public:
  explicit FakeModel(float sharpness = 1.0F) : sharpness_(sharpness) {}
  std::size_t vocab_size() const override { return kVocab; }
  Position context() const override { return 64; }
  std::size_t kv_bytes() const override { return 1; }
  std::span<const float> feed(std::span<const TokenId> tokens, Position first_position,
                              std::size_t wanted) override {
    REQUIRE(static_cast<std::size_t>(first_position) <= seen_.size());
    seen_.resize(static_cast<std::size_t>(first_position));
    logits_.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      seen_.push_back(tokens[i]);
      ++fed;
      if (i + wanted < tokens.size()) continue;
      const std::vector<float> row = logits_after(seen_, sharpness_);
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
    if (poison) logits_.back() = NAN;
    return logits_;
  }
  std::int64_t fed = 0;
  bool poison = false;

 private:
  float sharpness_;
  std::vector<TokenId> seen_;
  std::vector<float> logits_;
};

std::vector<double> softmax(const std::vector<float>& logits) {
  std::vector<double> p;
  for (const float x : logits) p.push_back(std::exp(static_cast<double>(x)));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

std::vector<TokenId> some_tokens(std::size_t n) {
  std::mt19937 random(5);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % kVocab);
  return tokens;
}

PerplexityOptions windows(Position context, Position stride, Position skip = 0) {
  PerplexityOptions options;
  options.context = context;
  options.stride = stride;
  options.skip = skip;
  return options;
}

}  // namespace

TEST_CASE("perplexity and divergence follow their definitions") {
  const std::vector<TokenId> tokens = some_tokens(50);
  FakeModel model;
  FakeModel other(1.3F);
  const PerplexityResult result = measure_perplexity(model, &other, tokens, windows(20, 10));

  double loss = 0;
  double other_loss = 0;
  double kl = 0;
  int n = 0;
  int same = 0;
  for (std::size_t begin = 0; begin + 20 <= tokens.size(); begin += 10)
    for (std::size_t i = begin + 10; i < begin + 20; ++i) {
      const std::vector<TokenId> before(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                                        tokens.begin() + static_cast<std::ptrdiff_t>(i));
      const auto q = softmax(logits_after(before, 1.0F));
      const auto p = softmax(logits_after(before, 1.3F));
      loss -= std::log(q[static_cast<std::size_t>(tokens[i])]);
      other_loss -= std::log(p[static_cast<std::size_t>(tokens[i])]);
      for (std::size_t t = 0; t < kVocab; ++t) kl += p[t] * std::log(p[t] / q[t]);
      same += std::max_element(p.begin(), p.end()) - p.begin() ==
                      std::max_element(q.begin(), q.end()) - q.begin()
                  ? 1
                  : 0;
      ++n;
    }
  CHECK(result.windows == 4);
  CHECK(result.score.count() == n);
  CHECK(result.score.loss() == Approx(loss / n).epsilon(1e-6));
  CHECK(result.score.perplexity() == Approx(std::exp(loss / n)).epsilon(1e-6));
  CHECK(result.baseline_score->loss() == Approx(other_loss / n).epsilon(1e-6));
  CHECK(result.divergence->mean_kl() == Approx(kl / n).epsilon(1e-5));
  CHECK(result.divergence->top1_agreement() == Approx(static_cast<double>(same) / n));
  CHECK(result.divergence->kl_max >= result.divergence->mean_kl());
}

TEST_CASE("chunks and recomputation change the work and no digit") {
  const std::vector<TokenId> tokens = some_tokens(60);
  FakeModel whole;
  const PerplexityResult expected = measure_perplexity(whole, nullptr, tokens, windows(30, 15));
  CHECK(whole.fed == 3 * 29);
  CHECK(expected.cost.positions == whole.fed);
  CHECK_FALSE(expected.divergence.has_value());
  for (const Position chunk : {1, 2, 7, 100}) {
    FakeModel model;
    PerplexityOptions options = windows(30, 15);
    options.chunk = chunk;
    CHECK(measure_perplexity(model, nullptr, tokens, options).score.loss() ==
          expected.score.loss());
  }
  FakeModel model;
  PerplexityOptions options = windows(30, 15);
  options.recompute = true;
  const PerplexityResult again = measure_perplexity(model, nullptr, tokens, options);
  CHECK(again.score.loss() == expected.score.loss());
  CHECK(again.cost.positions == 3 * (15 + 29) * 15 / 2);  // prefixes of 15 to 29 tokens
}

TEST_CASE("windows can score any part of themselves and stop early") {
  const std::vector<TokenId> tokens = some_tokens(63);
  FakeModel model;
  CHECK(measure_perplexity(model, nullptr, tokens, windows(20, 20, 11)).score.count() == 3 * 9);
  CHECK(measure_perplexity(model, nullptr, tokens, windows(20, 20)).score.count() == 3 * 19);
  PerplexityOptions few = windows(20, 10);
  few.max_scored = 11;
  CHECK(measure_perplexity(model, nullptr, tokens, few).windows == 2);
  // A text shorter than the window is one window.
  const std::vector<TokenId> brief = some_tokens(7);
  CHECK(measure_perplexity(model, nullptr, brief, windows(20, 20)).score.count() == 6);
  CHECK(measure_perplexity(model, nullptr, brief, windows(20, 10)).score.count() == 1);
  int calls = 0;
  const PerplexityResult cut =
      measure_perplexity(model, nullptr, tokens, windows(20, 10),
                         [&](std::int64_t done, std::int64_t all, const PerplexityResult& so_far) {
                           CHECK(all == 5);
                           CHECK(so_far.windows == done);
                           return ++calls < 2;
                         });
  CHECK(cut.windows == 2);
}

TEST_CASE("a start token takes the first place of every window") {
  std::vector<TokenId> tokens = some_tokens(40);
  PerplexityOptions options = windows(20, 20);
  options.first_token = 3;
  FakeModel model;
  const double loss = measure_perplexity(model, nullptr, tokens, options).score.loss();
  tokens[0] = tokens[20] = 3;
  CHECK(measure_perplexity(model, nullptr, tokens, windows(20, 20)).score.loss() == loss);
}

TEST_CASE("evaluations that make no sense are refused with a sentence") {
  FakeModel model;
  const auto code = [&](const PerplexityOptions& options, const std::vector<TokenId>& tokens) {
    try {
      measure_perplexity(model, nullptr, tokens, options);
    } catch (const Error& e) {
      return e.code();
    }
    return ErrorCode::kInternal;
  };
  const std::vector<TokenId> good = some_tokens(40);
  CHECK(code(windows(1, 0), good) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(65, 0), good) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(20, 21), good) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(20, -1), good) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(20, 10, 20), good) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(20, 10), {1}) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(20, 10), {1, 11}) == ErrorCode::kInvalidArgument);
  CHECK(code(windows(20, 10), {1, -1}) == ErrorCode::kInvalidArgument);
  model.poison = true;
  CHECK(code(windows(20, 10), good) == ErrorCode::kCorrupt);
}

TEST_CASE("the bundled model predicts held-out stories as another implementation says") {
  const auto dir = shared_dir("models");
  if (!dir) return;
  const auto source = open_model(source_dir() / "models/demo-q8_0.gguf");
  const ModelConfig config = read_model_config(*source);
  std::ifstream file(*dir / "demo/validation.txt", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::vector<TokenId> tokens = make_tokenizer(*source)->encode(text, {});
  CpuBackendOptions backend;
  const auto model = make_token_model(source, config, backend, 512);
  const PerplexityResult result =
      measure_perplexity(*model, nullptr, tokens, windows(512, 512, 257));
  // 10.005, from an implementation that also rounds the activations to 8 bits; that moves its
  // own F32 figure (10.002) by as much as the tolerance here.
  CHECK(result.score.perplexity() == Approx(10.005).margin(0.02));
}
