// On a device as on the CPU: what comes out for a sequence depends on nothing but the sequence, to
// the last bit.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>

#include "tests/engine/backend/cuda/cuda_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<TokenId> random_tokens(std::size_t n, std::int32_t vocab, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % static_cast<std::uint32_t>(vocab));
  return tokens;
}

bool same_tokens(const std::vector<SampledToken>& a, const std::vector<SampledToken>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].id != b[i].id || a[i].logprob != b[i].logprob ||
        a[i].top_probability != b[i].top_probability)
      return false;
  return true;
}

}  // namespace

TEST_CASE("logits on a device do not depend on chunks or block numbers or block size") {
  for (const char* folder : {"reference/models/llama-gqa", "reference/quant/Q8_0"}) {
    const auto dir = shared_dir(folder);
    if (!dir) return;
    const auto source = open_model(*dir / "model.gguf");
    CAPTURE(folder);
    CudaRig first(source, small_cuda_options(DType::kF16));
    const auto tokens = random_tokens(28, first.config.vocab_size, 5);
    const std::vector<float> expected = first.logits(tokens, 28);
    first.shuffle(9);
    for (const std::size_t chunk : {1U, 7U, 28U}) {
      CAPTURE(chunk);
      CHECK(same_bits(first.logits(tokens, chunk), expected));
    }
    CudaRig other(source, small_cuda_options(DType::kF16), {}, 5);
    CHECK(same_bits(other.logits(tokens, 13), expected));
  }
}

TEST_CASE("draws on a device do not depend on company or graphs or when work is done") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  SamplingParams params;
  params.seed = 4;
  params.repetition_penalty = 1.2F;
  const std::vector<TokenId> prompt{1, 403, 407, 261, 378};
  std::vector<SampledToken> alone;
  {
    CudaBackendOptions options = small_cuda_options(DType::kF16);
    options.graphs = false;
    CudaRig rig(source, options);
    RigSequence sequence(prompt, rig.take_blocks(64), params);
    run_all(rig.backend, {&sequence}, 16);
    alone = sequence.drawn;
    CHECK(rig.backend.counts().recorded == 0);
  }
  for (const bool deferred : {false, true}) {
    if (deferred && !on_host_shim()) continue;
    CAPTURE(deferred);
    CudaRig rig(source, small_cuda_options(DType::kF16), {deferred, nullptr});
    rig.shuffle(3);
    RigSequence sequence(prompt, rig.take_blocks(64), params);
    std::vector<RigSequence> company;
    for (std::uint32_t i = 0; i < 4; ++i) {
      SamplingParams other = params;
      other.seed = i;
      company.emplace_back(random_tokens(3 + 9 * i, 512, i), rig.take_blocks(64), other);
    }
    // Prompts of different lengths end at different steps, so batches mix both kinds of rows.
    run_all(rig.backend, {&company[0], &company[3], &sequence, &company[1], &company[2]}, 16, 8);
    CHECK(same_tokens(sequence.drawn, alone));
    CHECK(rig.backend.counts().replayed > 0);
  }
}

TEST_CASE("a step that samples more rows than fit at a time draws the same tokens") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  const auto run = [&](std::int32_t rows_at_a_time) {
    CudaBackendOptions options = small_cuda_options();
    options.max_sampled_rows = rows_at_a_time;
    CudaRig rig(source, options);
    StepBatch batch;
    for (TokenId i = 0; i < 7; ++i) {
      SamplingParams params;
      params.seed = static_cast<std::uint64_t>(i);
      RigSequence sequence({i, i + 1, i + 2}, rig.take_blocks(3), params);
      batch.slices.push_back(sequence.slice(static_cast<SequenceId>(i), 8));
      batch.slices.back().sample = i != 4;
    }
    std::vector<TokenId> drawn;
    for (const SliceResult& r : rig.backend.step(batch).slices) {
      CHECK(r.error.empty());
      CHECK(r.token.has_value() == (r.sequence != 4));
      drawn.push_back(r.token ? r.token->id : -1);
    }
    return drawn;
  };
  CHECK(run(2) == run(8));
}

TEST_CASE("prompts by GEMM give nearly the same logits in any company") {
  const auto dir = shared_dir("reference/quant/Q8_0");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  CudaBackendOptions options = small_cuda_options();
  CudaRig exact(source, options);
  options.fast_prefill = true;
  CudaRig fast(source, options);
  const auto tokens = random_tokens(33, exact.config.vocab_size, 8);
  const std::vector<float> expected = exact.logits(tokens, 33);
  const std::vector<float> got = fast.logits(tokens, 33);
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst =
        std::max(worst, std::abs(static_cast<double>(got[i]) - static_cast<double>(expected[i])));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
  }
  CHECK(worst > 0);  // another way of computing
  CHECK(worst < 0.05 * largest);
}
