#include "engine/stream/stop_policy.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/base/error.hpp"
#include "tests/engine/stream/random_text.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr TokenId kEnd = 9;

StopPolicy policy_for(const StopOptions& options, Position max_new_tokens = 100,
                      Position room = 0) {
  const std::vector<TokenId> end_tokens = {kEnd};
  return {options, end_tokens, {max_new_tokens, room}};
}

SampledToken token(TokenId id, float top_probability = 1.0F) {
  return {id, 0.0F, top_probability, {}};
}

/// Counts the ids and returns how many tokens it took until a rule held, with the rule's name.
std::string first_end(StopPolicy policy, const std::vector<TokenId>& ids,
                      StopPolicy::Evidence evidence = {}) {
  for (const TokenId id : ids) {
    policy.count(token(id));
    if (const auto rule = policy.judge(evidence)) {
      return std::to_string(policy.num_tokens()) + " " + std::string(name(*rule));
    }
  }
  return "none";
}

/// The plain definition: the output ends with some n-gram k times in a row.
bool ends_with_repetition(const std::vector<TokenId>& ids, std::size_t n, std::size_t k) {
  if (ids.size() < n * k) return false;
  const auto tail = ids.end() - static_cast<std::ptrdiff_t>(n * k);
  for (std::size_t i = 0; i < n * k; ++i) {
    if (tail[static_cast<std::ptrdiff_t>(i)] != tail[static_cast<std::ptrdiff_t>(i % n)]) {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("the maximum comes before every other rule") {
  StopOptions options{.min_new_tokens = 5, .min_confidence = 1.0F, .patience = 1};
  CHECK(first_end(policy_for(options, 3, 3), {1, 2, kEnd}, {true, true}) == "3 max_new_tokens");
}

TEST_CASE("rules are tried in the order of the list") {
  // Everything holds at the first token; what is switched off uncovers the next rule.
  StopOptions all{
      .min_confidence = 1.0F, .patience = 2, .repetition_ngram = 1, .repetition_times = 2};
  const auto end = [&](const StopOptions& options, TokenId id, StopPolicy::Evidence evidence) {
    StopPolicy policy = policy_for(options, 100, 2);
    policy.count(token(id, 0.5F));
    policy.count(token(id, 0.5F));
    return policy.judge(evidence);
  };
  CHECK(end(all, kEnd, {true, true}) == StopRule::kEndToken);
  CHECK(end(all, 1, {true, true}) == StopRule::kStopString);
  CHECK(end(all, 1, {false, true}) == StopRule::kLowConfidence);
  all.patience = 0;
  CHECK(end(all, 1, {false, true}) == StopRule::kRepetition);
  all.repetition_times = 0;
  CHECK(end(all, 1, {false, true}) == StopRule::kTimeLimit);
  CHECK(end(all, 1, {false, false}) == StopRule::kContextFull);
}

TEST_CASE("before the minimum only maximum and context end a stream") {
  StopOptions options{.min_new_tokens = 3,
                      .min_confidence = 1.0F,
                      .patience = 1,
                      .repetition_ngram = 1,
                      .repetition_times = 2};
  CHECK(first_end(policy_for(options), {kEnd, kEnd, kEnd}, {true, true}) == "3 end_token");
  CHECK(first_end(policy_for(options, 2), {kEnd, kEnd, kEnd}, {true, true}) == "2 max_new_tokens");
  CHECK(first_end(policy_for(options, 9, 2), {kEnd, kEnd, kEnd}, {true, true}) == "2 context_full");
}

TEST_CASE("end tokens are the union and can be ignored") {
  StopOptions options{.stop_token_ids = {4}};
  CHECK(first_end(policy_for(options), {1, 4, kEnd}) == "2 end_token");
  CHECK(first_end(policy_for(options), {1, kEnd, 4}) == "2 end_token");
  options.ignore_end_tokens = true;
  CHECK(first_end(policy_for(options), {1, kEnd, 4}) == "3 end_token");
}

TEST_CASE("low confidence needs so many doubtful tokens in a row") {
  const StopOptions options{.min_new_tokens = 4, .min_confidence = 0.25F, .patience = 3};
  const auto end = [&](const std::vector<float>& probabilities) {
    StopPolicy policy = policy_for(options);
    for (const float p : probabilities) {
      policy.count(token(1, p));
      if (policy.judge({})) return static_cast<int>(policy.num_tokens());
    }
    return 0;
  };
  CHECK(end({0.9F, 0.2F, 0.2F, 0.2F}) == 4);
  CHECK(end({0.2F, 0.2F, 0.2F, 0.2F}) == 4);  // tokens before the minimum count, but do not end
  CHECK(end({0.2F, 0.2F, 0.25F, 0.2F, 0.2F, 0.9F}) == 0);
  CHECK(end({0.2F, 0.2F, std::numeric_limits<float>::quiet_NaN(), 0.2F, 0.2F}) == 0);
}

TEST_CASE("repetition equals its plain definition on random tokens") {
  RandomText random(5);
  int hits = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t n = 1 + random.below(4);
    const std::size_t k = 2 + random.below(3);
    StopPolicy policy = policy_for({.repetition_ngram = static_cast<std::int32_t>(n),
                                    .repetition_times = static_cast<std::int32_t>(k)});
    for (int i = 0; i < 40; ++i) {
      policy.count(token(static_cast<TokenId>(random.below(2))));
      const bool expected = ends_with_repetition(policy.tokens(), n, k);
      REQUIRE((policy.judge({}) == StopRule::kRepetition) == expected);
      if (expected) ++hits;
      if (expected) break;
    }
  }
  CHECK(hits > 1000);
}

TEST_CASE("huge repetition settings do not overflow") {
  constexpr auto kMost = std::numeric_limits<std::int32_t>::max();
  CHECK(first_end(policy_for({.repetition_ngram = kMost, .repetition_times = kMost}), {1, 1, 1}) ==
        "none");
}

TEST_CASE("options that can never work are refused") {
  CHECK_NOTHROW(check_stop_options({}));
  CHECK_THROWS_AS(check_stop_options({.max_new_tokens = 0}), Error);
  CHECK_THROWS_AS(check_stop_options({.min_new_tokens = -1}), Error);
  CHECK_THROWS_AS(check_stop_options({.stop_strings = {{""}}}), Error);
  CHECK_THROWS_AS(check_stop_options({.min_confidence = 1.5F}), Error);
  CHECK_THROWS_AS(check_stop_options({.min_confidence = std::nanf("")}), Error);
  CHECK_THROWS_AS(check_stop_options({.patience = -1}), Error);
  CHECK_THROWS_AS(check_stop_options({.repetition_ngram = 2, .repetition_times = 1}), Error);
  CHECK_THROWS_AS(check_stop_options({.repetition_ngram = 0, .repetition_times = 3}), Error);
  CHECK_THROWS_AS(check_stop_options({.time_limit = std::chrono::milliseconds(-1)}), Error);
}

TEST_CASE("finish reasons are words that OpenAI clients know") {
  CHECK(finish_reason(StopRule::kMaxNewTokens) == "length");
  CHECK(finish_reason(StopRule::kContextFull) == "length");
  CHECK(finish_reason(StopRule::kTimeLimit) == "length");
  CHECK(finish_reason(StopRule::kEndToken) == "stop");
  CHECK(finish_reason(StopRule::kStopString) == "stop");
  CHECK(finish_reason(StopRule::kLowConfidence) == "stop");
  CHECK(finish_reason(StopRule::kRepetition) == "stop");
  CHECK(finish_reason(StopRule::kCancelled) == "cancelled");
}
