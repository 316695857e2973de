// Sampling on the device against the engine's sampler: the same tokens for the same draws.
#include "engine/sampling/sampler.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct RowOfTest {
  std::vector<float> logits;
  SamplingParams params;
  Position position = 0;
  Position num_generated = 0;
  std::vector<TokenId> history;
  bool padding = false;
};

struct Outcome {
  std::vector<SampleResult> results;
  std::vector<std::int32_t> ids;
};

/// All rows in one launch.
Outcome run(const std::vector<RowOfTest>& rows) {
  const std::size_t vocab = rows[0].logits.size();
  std::vector<float> logits;
  std::vector<RowSampling> params;
  std::vector<LogitBias> biases(1);
  std::vector<std::int32_t> banned(1);
  std::vector<std::int32_t> history(1);
  const auto append = [](auto& to, const auto& from, std::int32_t& first, std::int32_t& count) {
    first = static_cast<std::int32_t>(to.size());
    count = static_cast<std::int32_t>(from.size());
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const RowOfTest& row : rows) {
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    RowSampling p;
    p.active = row.padding ? 0 : 1;
    p.position = row.position;
    p.seed = row.params.seed;
    p.temperature = row.params.temperature;
    p.top_p = row.params.top_p;
    p.min_p = row.params.min_p;
    p.top_k = row.params.top_k;
    p.repetition_penalty = row.params.repetition_penalty;
    p.presence_penalty = row.params.presence_penalty;
    p.frequency_penalty = row.params.frequency_penalty;
    p.num_top_logprobs = row.params.num_top_logprobs;
    p.num_generated = row.num_generated;
    std::vector<LogitBias> row_biases;
    for (const auto& b : row.params.logit_bias) row_biases.push_back({b.token, b.bias});
    append(biases, row_biases, p.first_bias, p.num_biases);
    if (row.num_generated < row.params.min_new_tokens)
      append(banned, row.params.banned_before_min, p.first_banned, p.num_banned);
    append(history, row.history, p.first_history, p.num_history);
    params.push_back(p);
  }
  DeviceArray<float> device_logits(logits);
  const DeviceArray<RowSampling> device_params(params);
  const DeviceArray<LogitBias> device_biases(biases);
  const DeviceArray<std::int32_t> device_banned(banned);
  const DeviceArray<std::int32_t> device_history(history);
  DeviceArray<std::int32_t> counts(std::vector<std::int32_t>(rows.size() * vocab, 0));
  DeviceArray<SampleResult> results(rows.size());
  DeviceArray<std::int32_t> ids(rows.size());
  Sampling operands;
  operands.logits = device_logits.data();
  operands.vocab = static_cast<std::int32_t>(vocab);
  operands.params = device_params.data();
  operands.biases = device_biases.data();
  operands.banned = device_banned.data();
  operands.history = device_history.data();
  operands.counts = counts.data();
  operands.results = results.data();
  operands.ids = ids.data();
  check_launch(sample(operands, static_cast<std::int32_t>(rows.size()), nullptr));
  for (const std::int32_t count : counts.read()) REQUIRE(count == 0);
  return {results.read(), ids.read()};
}

SampleOutcome run_on_cpu(const RowOfTest& row) {
  std::vector<float> logits = row.logits;
  Sampler sampler(logits.size());
  return sampler.sample({logits, &row.params, row.position, row.num_generated, row.history});
}

void check_same(const SampleResult& got, const SampleOutcome& expected) {
  REQUIRE(expected.error.empty());
  REQUIRE(got.status == static_cast<std::int32_t>(SampleStatus::kOk));
  CHECK(got.id == expected.token.id);
  CHECK(std::abs(got.logprob - expected.token.logprob) < 2e-6F);
  CHECK(std::abs(got.top_probability - expected.token.top_probability) < 1e-6F);
  REQUIRE(got.num_top == static_cast<std::int32_t>(expected.token.top.size()));
  for (std::size_t i = 0; i < expected.token.top.size(); ++i) {
    CHECK(got.top_ids[i] == expected.token.top[i].id);
    CHECK(std::abs(got.top_logprobs[i] - expected.token.top[i].logprob) < 2e-6F);
  }
}

template <class... T>
auto one_of(std::mt19937& random, T... values) {
  const std::array list{values...};
  return list[random() % list.size()];
}

RowOfTest random_row(std::size_t vocab, std::mt19937& random) {
  RowOfTest row;
  row.logits = test::random_floats(vocab, random, one_of(random, 0.5F, 3.0F, 10.0F));
  if (random() % 4 == 0)  // many equal ones
    for (float& x : row.logits) x = std::round(x);
  SamplingParams& p = row.params;
  p.temperature = one_of(random, 0.0F, 0.3F, 0.7F, 1.0F, 1.8F, 30.0F);
  p.top_k = one_of(random, 0, 0, 1, 2, 10, 100, 100000);
  p.top_p = one_of(random, 1.0F, 0.95F, 0.5F, 0.01F, 0.0F);
  p.min_p = one_of(random, 0.0F, 0.0F, 0.05F, 0.5F, 1.0F);
  p.repetition_penalty = one_of(random, 1.0F, 1.3F, 0.8F);
  p.presence_penalty = one_of(random, 0.0F, 0.6F, -0.5F);
  p.frequency_penalty = one_of(random, 0.0F, 0.4F);
  p.num_top_logprobs = one_of(random, 0, 1, 5, 20, 25);
  p.min_new_tokens = one_of(random, 0, 3);
  p.seed = random() | static_cast<std::uint64_t>(random()) << 32;
  const auto token = [&] { return static_cast<TokenId>(random() % vocab); };
  for (int i = one_of(random, 0, 0, 6); i > 0; --i)
    p.logit_bias.push_back(
        {i == 3 ? -1 : (i < 3 ? TokenId{1} : token()), one_of(random, -3.0F, 2.0F)});
  for (int i = one_of(random, 0, 2); i > 0; --i) p.banned_before_min.push_back(token());
  row.position = static_cast<Position>(random() % 5000);
  const auto length = random() % 40;
  for (std::size_t i = 0; i < length; ++i) row.history.push_back(i % 5 == 0 ? TokenId{1} : token());
  row.num_generated = static_cast<Position>(random() % 50);
  return row;
}

TEST_CASE("cuda sampling chooses the engine's tokens") {
  std::mt19937 random(100);
  for (const std::size_t vocab : {1UL, 7UL, 300UL, 512UL, 3001UL, 9001UL}) {
    CAPTURE(vocab);
    const int rounds = vocab > 4096 ? 5 : 20;
    for (int round = 0; round < rounds; ++round) {
      std::vector<RowOfTest> rows(6);
      for (RowOfTest& row : rows) row = random_row(vocab, random);
      rows[4].padding = true;
      const Outcome outcome = run(rows);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].padding) {
          CHECK(outcome.results[i].status == static_cast<std::int32_t>(SampleStatus::kPadding));
          CHECK(outcome.ids[i] == -1);
          continue;
        }
        const SampleOutcome expected = run_on_cpu(rows[i]);
        if (!expected.error.empty()) {  // a vocabulary of one token can be banned
          CHECK(outcome.results[i].status != static_cast<std::int32_t>(SampleStatus::kOk));
          CHECK(outcome.ids[i] == -1);
          continue;
        }
        CAPTURE(i, rows[i].params.temperature, rows[i].params.top_k, rows[i].params.top_p,
                rows[i].params.min_p);
        check_same(outcome.results[i], expected);
        CHECK(outcome.ids[i] == expected.token.id);
      }
    }
  }
}

TEST_CASE("cuda draws follow the engine's draws over many positions") {
  std::mt19937 random(101);
  RowOfTest row;
  row.logits = test::random_floats(200, random, 1.5F);
  row.params.temperature = 1.2F;
  row.params.top_p = 0.9F;
  row.params.top_k = 60;
  row.params.seed = 0x123456789ABCDEFULL;
  std::vector<RowOfTest> rows(100, row);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].position = static_cast<Position>(i * 37);
  const Outcome outcome = run(rows);
  std::vector<std::int32_t> distinct = outcome.ids;
  for (std::size_t i = 0; i < rows.size(); ++i) check_same(outcome.results[i], run_on_cpu(rows[i]));
  std::sort(distinct.begin(), distinct.end());
  CHECK(std::unique(distinct.begin(), distinct.end()) - distinct.begin() > 10);
}

TEST_CASE("cuda sampling has the same bits in every order of threads") {
  std::mt19937 random(102);
  std::vector<RowOfTest> rows(3);
  for (RowOfTest& row : rows) row = random_row(5000, random);
  Outcome outcome;
  const auto bits = same_in_every_order([&] { outcome = run(rows); }, [&] { return outcome.ids; });
  CHECK(bits.size() == 3);
}

TEST_CASE("cuda sampling reports what leaves no token") {
  RowOfTest row;
  row.logits = {1.0F, 2.0F, 3.0F};
  row.params.temperature = 1.0F;
  const auto status = [&] { return static_cast<SampleStatus>(run({row}).results[0].status); };
  CHECK(status() == SampleStatus::kOk);
  row.logits[1] = -kInf;
  CHECK(status() == SampleStatus::kLogitsNotFinite);
  row.logits[1] = std::numeric_limits<float>::quiet_NaN();
  CHECK(status() == SampleStatus::kLogitsNotFinite);
  row.logits[1] = 2.0F;
  row.params.logit_bias = {{0, kInf}};
  CHECK(status() == SampleStatus::kAdjustedNotFinite);
  row.params.logit_bias = {{0, -kInf}, {1, -kInf}, {2, -kInf}};
  CHECK(status() == SampleStatus::kAdjustedNotFinite);
  row.params.logit_bias = {{0, -kInf}};
  CHECK(status() == SampleStatus::kOk);
  row.params.min_new_tokens = 1;
  row.params.banned_before_min = {1, 2, 77};
  CHECK(status() == SampleStatus::kAllBanned);
  row.num_generated = 1;
  CHECK(status() == SampleStatus::kOk);
}

TEST_CASE("cuda argmax takes the lowest of the largest") {
  std::mt19937 random(103);
  for (const std::size_t vocab : {1UL, 5UL, 1000UL}) {
    std::vector<float> logits = test::random_floats(3 * vocab, random);
    for (float& x : logits) x = std::round(x);
    logits[2 * vocab + vocab / 2] = std::numeric_limits<float>::quiet_NaN();
    const DeviceArray<float> device(logits);
    DeviceArray<std::int32_t> ids(3);
    check_launch(argmax(device.data(), 3, static_cast<std::int32_t>(vocab), ids.data(), nullptr));
    for (std::size_t row = 0; row < 2; ++row) {
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * vocab);
      const auto largest =
          std::max_element(begin, begin + static_cast<std::ptrdiff_t>(vocab)) - begin;
      CHECK(ids.data()[row] == static_cast<std::int32_t>(largest));
    }
    CHECK(ids.data()[2] == -1);
  }
}

TEST_CASE("cuda sampling of no rows and bad shapes") {
  Sampling operands;
  check_refused(sample(operands, 1, nullptr));
  DeviceArray<float> logits(4);
  DeviceArray<std::int32_t> ids(4);
  DeviceArray<SampleResult> results(1);
  const DeviceArray<RowSampling> params(1);
  operands.logits = logits.data();
  operands.vocab = 4;
  operands.params = params.data();
  operands.counts = ids.data();
  operands.results = results.data();
  check_launch(sample(operands, 0, nullptr));
  operands.vocab = (1 << 18) + 1;
  check_refused(sample(operands, 1, nullptr));
  check_launch(argmax(logits.data(), 0, 4, ids.data(), nullptr));
  check_refused(argmax(logits.data(), 1, 0, ids.data(), nullptr));
}

}  // namespace
}  // namespace sluice::kernels::cuda
