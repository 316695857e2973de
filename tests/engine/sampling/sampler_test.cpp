#include "engine/sampling/sampler.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "engine/sampling/philox.hpp"
#include "tests/engine/sampling/naive_sampler.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SampleOutcome sample(std::vector<float> logits, const SamplingParams& params, Position position = 0,
                     Position num_generated = 0, const std::vector<TokenId>& history = {}) {
  Sampler sampler(logits.size());
  return sampler.sample({logits, &params, position, num_generated, history});
}

SamplingParams greedy() {
  SamplingParams p;
  p.temperature = 0;
  return p;
}

std::vector<float> random_logits(std::size_t n, float spread, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

SamplingParams random_params(std::size_t vocab, std::mt19937& random) {
  const auto one_of = [&](auto... values) {
    const std::array list{values...};
    return list[random() % list.size()];
  };
  const auto token = [&] { return static_cast<TokenId>(random() % vocab); };
  SamplingParams p;
  p.temperature = one_of(0.0F, 0.3F, 0.7F, 1.0F, 1.8F);
  p.top_k = one_of(0, 0, 1, 2, 10, 100, 100000);
  p.top_p = one_of(1.0F, 0.95F, 0.5F, 0.01F);
  p.min_p = one_of(0.0F, 0.0F, 0.05F, 0.5F);
  p.repetition_penalty = one_of(1.0F, 1.3F, 0.8F);
  p.presence_penalty = one_of(0.0F, 0.6F, -0.5F);
  p.frequency_penalty = one_of(0.0F, 0.4F);
  p.num_top_logprobs = one_of(0, 1, 5, 20);
  p.min_new_tokens = one_of(0, 3);
  p.seed = random();
  for (int i = one_of(0, 3); i > 0; --i)
    if (const TokenId id = token(); p.logit_bias.empty() || p.logit_bias[0].token != id)
      p.logit_bias.push_back({id, one_of(-3.0F, 2.0F)});
  for (int i = one_of(0, 2); i > 0; --i) p.banned_before_min.push_back(token());
  return p;
}

}  // namespace

TEST_CASE("sampling agrees with the naive rules over random parameters") {
  std::mt19937 random(1);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t vocab = std::array<std::size_t, 4>{5, 33, 300, 3000}[random() % 4];
    const auto raw = random_logits(vocab, std::array{0.5F, 3.0F, 8.0F}[random() % 3], random);
    const SamplingParams params = random_params(vocab, random);
    std::vector<TokenId> history(random() % 40);
    for (TokenId& id : history) id = static_cast<TokenId>(random() % vocab);
    const auto generated = static_cast<Position>(random() % (history.size() + 1));
    const auto position = static_cast<Position>(history.size());
    const NaiveDistribution expected = naive_distribution(raw, params, history, generated);
    const SampleOutcome got = sample(raw, params, position, generated, history);
    CAPTURE(round, vocab, params.temperature, params.top_k, params.top_p, params.min_p);
    REQUIRE(got.error.empty());
    const auto id = static_cast<std::size_t>(got.token.id);
    CHECK(static_cast<double>(got.token.logprob) == Approx(expected.logprobs[id]).margin(1e-5));
    CHECK(static_cast<double>(got.token.top_probability) ==
          Approx(std::exp(*std::max_element(expected.logprobs.begin(), expected.logprobs.end())))
              .epsilon(1e-5));
    REQUIRE(got.token.top.size() ==
            std::min(vocab, static_cast<std::size_t>(params.num_top_logprobs)));
    std::vector<double> sorted = expected.logprobs;
    std::sort(sorted.rbegin(), sorted.rend());
    for (std::size_t i = 0; i < got.token.top.size(); ++i) {
      const TokenLogprob& entry = got.token.top[i];
      CHECK(static_cast<double>(entry.logprob) == Approx(sorted[i]).margin(1e-5));
      CHECK(static_cast<double>(entry.logprob) ==
            Approx(expected.logprobs[static_cast<std::size_t>(entry.id)]).margin(1e-5));
    }
    // Draw again from the naive distribution, in the order of ids, when no cut was a close call.
    if (expected.closest_cut < 1e-5) continue;
    const double u = uniform_draw(params.seed, static_cast<std::uint32_t>(position));
    double below = 0;
    for (std::size_t i = 0; i < id; ++i) below += expected.kept[i];
    CHECK(expected.kept[id] > 0);
    CHECK(u >= below - 1e-5);
    CHECK(u <= below + expected.kept[id] + 1e-5);
    ++compared;
  }
  CHECK(compared > 2500);
}

TEST_CASE("greedy takes the lowest id on a tie") {
  CHECK(sample({1, 5, 5, 5, 2}, greedy()).token.id == 1);
  CHECK(sample({0, 0}, greedy()).token.id == 0);
  CHECK(sample({-3, -2, -2}, greedy()).token.id == 1);
  SamplingParams one;
  one.top_k = 1;
  one.temperature = 1;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    one.seed = seed;
    CHECK(sample({1, 5, 5, 5, 2}, one).token.id == 1);
  }
}

TEST_CASE("ties at the cut of top k go to the lower ids") {
  SamplingParams p;
  p.temperature = 1;
  p.top_p = 1;
  p.top_k = 3;
  std::vector<int> counts(6);
  for (Position i = 0; i < 400; ++i)
    ++counts[static_cast<std::size_t>(sample({1, 2, 2, 2, 2, 2}, p, i).token.id)];
  CHECK(counts[0] == 0);
  CHECK(counts[1] + counts[2] + counts[3] == 400);
  CHECK(std::min({counts[1], counts[2], counts[3]}) > 90);
}

TEST_CASE("frequencies follow the probabilities") {
  std::mt19937 random(4);
  const std::vector<float> logits = random_logits(20, 1.0F, random);
  SamplingParams p;
  p.temperature = 0.8F;
  p.top_p = 1;
  p.seed = 99;
  const NaiveDistribution expected = naive_distribution(logits, p, {}, 0);
  std::vector<double> counts(20);
  const int n = 20000;
  for (Position i = 0; i < n; ++i)
    ++counts[static_cast<std::size_t>(sample(logits, p, i).token.id)];
  double chi_square = 0;
  for (std::size_t i = 0; i < 20; ++i) {
    const double mean = expected.kept[i] * n;
    REQUIRE(mean > 5);
    chi_square += (counts[i] - mean) * (counts[i] - mean) / mean;
  }
  CHECK(chi_square < 43.8);  // 99.9 % point for 19 degrees of freedom
}

TEST_CASE("a draw depends on seed and position and nothing else") {
  std::mt19937 random(5);
  const std::vector<float> logits = random_logits(1000, 2.0F, random);
  SamplingParams p;
  p.seed = 7;
  Sampler used(1000);
  for (Position i = 0; i < 50; ++i) {
    std::vector<float> other = random_logits(1000, 5.0F, random);
    SamplingParams q = random_params(1000, random);
    used.sample({other, &q, i, 0, {}});
    std::vector<float> copy = logits;
    CHECK(used.sample({copy, &p, i, 0, {}}).token.id == sample(logits, p, i).token.id);
  }
  std::vector<TokenId> ids;
  for (Position i = 0; i < 50; ++i) ids.push_back(sample(logits, p, i).token.id);
  p.seed = 8;
  std::vector<TokenId> others;
  for (Position i = 0; i < 50; ++i) others.push_back(sample(logits, p, i).token.id);
  CHECK(ids != others);
}

TEST_CASE("logits that are not finite give an error") {
  for (const float bad : {kNan, kInf, -kInf})
    for (std::size_t at : {0U, 7U, 8U, 16U}) {
      std::vector<float> logits(17, 1.0F);
      logits[at] = bad;
      CHECK(sample(logits, greedy(), 5).error.find("position 5") != std::string::npos);
      SamplingParams p;
      CHECK_FALSE(sample(logits, p).error.empty());
    }
  CHECK_FALSE(sample(std::vector<float>(9, kNan), greedy()).error.empty());
}

TEST_CASE("biases and penalties without bounds give an error and finite ones do not") {
  SamplingParams p = greedy();
  p.logit_bias = {{1, kInf}};
  CHECK_FALSE(sample({1, 2, 3}, p).error.empty());
  p.logit_bias = {{1, kNan}};
  CHECK_FALSE(sample({1, 2, 3}, p).error.empty());
  p.logit_bias = {{2, -kInf}};
  CHECK(sample({1, 2, 3}, p).token.id == 1);
  p.logit_bias = {{0, -kInf}, {1, -kInf}, {2, -kInf}};
  CHECK_FALSE(sample({1, 2, 3}, p).error.empty());
  p.logit_bias = {{-1, 5.0F}, {3, 5.0F}, {0, 100.0F}};
  CHECK(sample({1, 2, 3}, p).token.id == 0);
  p = greedy();
  p.repetition_penalty = 0;
  CHECK_FALSE(sample({1, 2, 3}, p, 1, 0, {1}).error.empty());
}

TEST_CASE("strange parameters are taken as their nearest sensible value") {
  SamplingParams p;
  p.temperature = kNan;
  CHECK(sample({1, 3, 2}, p).token.id == 1);
  p.temperature = -1;
  CHECK(sample({1, 3, 2}, p).token.id == 1);
  p.temperature = 1e-38F;
  CHECK(sample({1, 3, 2}, p).token.id == 1);
  p = {};
  p.top_p = 0;
  CHECK(sample({1, 3, 2}, p).token.id == 1);
  p.top_p = -5;
  CHECK(sample({1, 3, 2}, p).token.id == 1);
  p = {};
  p.min_p = 7;
  CHECK(sample({1, 3, 2}, p).token.id == 1);
  p = {};
  p.top_p = kNan;
  p.min_p = kNan;
  p.top_k = -4;
  p.temperature = kInf;
  p.num_top_logprobs = 1000;
  p.banned_before_min = {0, -1, 99};
  p.min_new_tokens = 1;
  const SampleOutcome got = sample({1, 3, 2}, p, 0, 0, {-5, 99});
  CHECK(got.error.empty());
  CHECK(got.token.id != 0);
  CHECK(got.token.top.size() == 3);
}

TEST_CASE("banned tokens cannot be drawn before the minimum but keep their logprob") {
  SamplingParams p = greedy();
  p.min_new_tokens = 2;
  p.banned_before_min = {1};
  p.num_top_logprobs = 1;
  const SampleOutcome early = sample({1, 3, 2}, p, 0, 1);
  CHECK(early.token.id == 2);
  CHECK(early.token.top.at(0).id == 1);
  CHECK(early.token.top_probability == Approx(0.665F).margin(0.001));
  CHECK(sample({1, 3, 2}, p, 0, 2).token.id == 1);
  p.banned_before_min = {0, 1, 2};
  CHECK_FALSE(sample({1, 3, 2}, p, 0, 0).error.empty());
}

TEST_CASE("a large flat vocabulary is cut exactly") {
  // All weights equal: top p of 0.5 keeps the lower half of the ids.
  const std::vector<float> logits(100000, 2.0F);
  SamplingParams p;
  p.temperature = 1;
  p.top_p = 0.5F;
  TokenId largest = 0;
  Sampler sampler(logits.size());
  for (Position i = 0; i < 60; ++i) {
    std::vector<float> copy = logits;
    largest = std::max(largest, sampler.sample({copy, &p, i, 0, {}}).token.id);
  }
  CHECK(largest < 50001);
  CHECK(largest > 45000);
}
