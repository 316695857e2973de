#include "engine/backend/scripted_backend.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

TokenId sum(std::span<const TokenId> tokens) {
  return std::accumulate(tokens.begin(), tokens.end(), 0);
}

StepSlice slice(SequenceId id, Position first, std::vector<TokenId> tokens,
                std::vector<BlockId> blocks, bool sample = true) {
  StepSlice slice;
  slice.sequence = id;
  slice.first_position = first;
  slice.tokens = std::move(tokens);
  slice.blocks = std::move(blocks);
  slice.sample = sample;
  slice.sampling = std::make_shared<const SamplingParams>();
  return slice;
}

std::unique_ptr<Backend> make(ScriptedBackendOptions options = {.next_token = sum}) {
  auto backend = make_scripted_backend(std::move(options));
  backend->allocate_pool({8, 4});
  return backend;
}

SliceResult one(Backend& backend, StepSlice slice) {
  StepBatch batch;
  batch.number = 5;
  batch.slices.push_back(std::move(slice));
  const StepResult result = backend.step(batch);
  REQUIRE(result.fatal.empty());
  CHECK(result.number == 5);
  REQUIRE(result.slices.size() == 1);
  return result.slices[0];
}

}  // namespace

TEST_CASE("the scripted backend reads tokens back through the block table") {
  const auto backend = make();
  CHECK_FALSE(one(*backend, slice(1, 0, {1, 2, 3, 4, 5}, {6, 2}, false)).token);
  const SliceResult result = one(*backend, slice(1, 5, {10}, {6, 2}));
  REQUIRE(result.token);
  CHECK(result.token->id == 25);
  CHECK(result.token->top_probability == 1.0F);
  // Another sequence that shares the first block.
  CHECK(one(*backend, slice(2, 4, {100}, {6, 3})).token->id == 110);
}

TEST_CASE("the scripted backend finds wrong tables") {
  const auto backend = make();
  CHECK(one(*backend, slice(1, 0, {1, 2, 3, 4, 5}, {6, 2})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 5, {1}, {6, 8})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 5, {1}, {-1, 2})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 8, {1}, {6, 2})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 5, {1}, {2, 6})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 6, {1}, {6, 3})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 5, {}, {6, 2})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, -1, {1}, {6, 2})).error.empty());
  CHECK_FALSE(one(*backend, slice(1, 0, {-7}, {6, 2})).error.empty());
  StepSlice without_sampling = slice(1, 0, {1}, {7});
  without_sampling.sampling = nullptr;
  CHECK_FALSE(one(*backend, without_sampling).error.empty());
}

TEST_CASE("the scripted backend finds two sequences in one slot") {
  const auto backend = make();
  StepBatch batch;
  batch.slices = {slice(1, 0, {1, 2}, {3}), slice(2, 0, {1, 2}, {3}), slice(3, 0, {7}, {4})};
  const StepResult result = backend->step(batch);
  REQUIRE(result.slices.size() == 3);
  CHECK_FALSE(result.slices[1].error.empty());
  CHECK(result.slices[2].token->id == 7);
}

TEST_CASE("the scripted backend checks the history it is given") {
  const auto backend = make();
  SamplingParams sampling;
  sampling.frequency_penalty = 1.0F;
  StepSlice penalised = slice(1, 0, {1, 2}, {3});
  penalised.sampling = std::make_shared<const SamplingParams>(sampling);
  CHECK_FALSE(one(*backend, penalised).error.empty());
  penalised.history = {1, 3};
  CHECK_FALSE(one(*backend, penalised).error.empty());
  penalised.history = {1, 2};
  CHECK(one(*backend, penalised).error.empty());
}

TEST_CASE("the scripted backend fails as it is told to") {
  auto fatal = std::make_shared<std::atomic<int>>(2);
  const auto backend = make({.next_token =
                                 [](std::span<const TokenId> tokens) {
                                   if (tokens[0] == 9) throw std::runtime_error("nine");
                                   return tokens[0] == 8 ? -1 : 1;
                                 },
                             .steps_until_fatal = fatal});
  CHECK_FALSE(one(*backend, slice(1, 0, {8}, {0})).error.empty());
  CHECK_FALSE(backend->step({}).fatal.empty());
  CHECK(*fatal == -1);
  CHECK_FALSE(one(*backend, slice(1, 0, {9}, {0})).error.empty());
  CHECK(one(*backend, slice(1, 0, {1}, {0})).token->id == 1);
  CHECK_THROWS_AS(backend->allocate_pool({0, 4}), Error);
  CHECK(backend->memory().kv_bytes > 0);
}

}  // namespace sluice
