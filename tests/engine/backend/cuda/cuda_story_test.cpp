// The CUDA backend tells the same stories as the CPU backend, token by token.
#include <catch2/catch.hpp>
#include <string>

#include "engine/backend/cpu_backend.hpp"
#include "tests/engine/backend/cuda/cuda_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Start token, then "Once upon a time".
const std::vector<TokenId> kPrompt{1, 403, 407, 261, 378};

std::vector<BlockId> blocks_from(BlockId first, std::int32_t count) {
  std::vector<BlockId> table(static_cast<std::size_t>(count));
  std::iota(table.begin(), table.end(), first);
  return table;
}

std::vector<SampledToken> on_cpu(const std::shared_ptr<const ModelSource>& source, DType kv,
                                 const SamplingParams& params, std::size_t count, bool precise) {
  CpuBackendOptions options;
  options.threads = 1;
  options.precise = precise;
  options.kv_type_k = options.kv_type_v = kv;
  CpuBackend backend(source, read_model_config(*source), options);
  backend.allocate_pool({16, 16});
  RigSequence sequence(kPrompt, blocks_from(0, 16), params);
  run_all(backend, {&sequence}, count);
  return sequence.drawn;
}

std::vector<TokenId> ids(const std::vector<SampledToken>& tokens) {
  std::vector<TokenId> result;
  for (const SampledToken& token : tokens) result.push_back(token.id);
  return result;
}

std::string text_of(const ModelSource& source, const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId id : tokens) {
    std::string piece =
        source.get_strings("tokenizer.ggml.tokens")->at(static_cast<std::size_t>(id));
    for (std::size_t at = 0; (at = piece.find("\u2581", at)) != std::string::npos;)
      piece.replace(at, 3, " ");
    text += piece == "<0x0A>" ? "\n" : piece;
  }
  return text;
}

}  // namespace

TEST_CASE("the CUDA backend tells the story of the CPU backend") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  const std::string expected =
      ", there was a little girl named Lily. She loved to play outside in the park. One day, she "
      "saw a big, red ball.";
  for (const DType kv : {DType::kF32, DType::kF16, DType::kQ8_0}) {
    CAPTURE(traits(kv).name);
    const std::size_t count = kv == DType::kF32 ? 100 : 40;
    CudaRig rig(source, small_cuda_options(kv));
    RigSequence sequence(kPrompt, rig.take_blocks(128), greedy_params());
    run_all(rig.backend, {&sequence}, count);
    CHECK(ids_of(sequence) == ids(on_cpu(source, kv, greedy_params(), count, true)));
    if (kv == DType::kF32)
      CHECK(text_of(*source, ids_of(sequence)).substr(0, expected.size()) == expected);
    // One chunk, then tokens one by one: the first of each size is launched, the others replayed.
    CHECK(rig.backend.counts().replayed > count / 2);
    CHECK(rig.backend.counts().recorded == 1);
  }
}

TEST_CASE(
    "quantised weights give the same tokens and nearly the same probabilities as on the CPU") {
  const auto file = shared_dir("reference/quant/stories260K-Q8_0");
  if (!file) return;
  const auto source = open_model(*file / "model.gguf");
  SamplingParams params = greedy_params();
  params.num_top_logprobs = 5;
  const std::vector<SampledToken> cpu = on_cpu(source, DType::kF16, params, 24, true);
  CudaRig rig(source, small_cuda_options(DType::kF16));
  RigSequence sequence(kPrompt, rig.take_blocks(64), params);
  run_all(rig.backend, {&sequence}, 24);
  REQUIRE(ids_of(sequence) == ids(cpu));
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    CAPTURE(i);
    CHECK(sequence.drawn[i].logprob == Approx(cpu[i].logprob).margin(0.05));
    CHECK(sequence.drawn[i].top_probability == Approx(cpu[i].top_probability).margin(0.05));
    REQUIRE(sequence.drawn[i].top.size() == 5);
    CHECK(sequence.drawn[i].top[0].id == cpu[i].top[0].id);
  }
}

TEST_CASE("draws with penalties and truncation are those of the CPU backend") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  CudaRig rig(source, small_cuda_options());
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    CAPTURE(seed);
    SamplingParams params;
    params.temperature = 0.9F;
    params.top_k = seed == 1 ? 40 : 0;
    params.top_p = seed == 2 ? 0.8F : 1.0F;
    params.min_p = seed == 3 ? 0.05F : 0.0F;
    params.seed = seed;
    params.repetition_penalty = 1.1F;
    params.frequency_penalty = 0.2F;
    params.presence_penalty = 0.1F;
    params.logit_bias = {{261, 0.5F}, {3, -1.0F}};
    params.min_new_tokens = 12;
    params.banned_before_min = {2, 1};
    params.num_top_logprobs = 3;
    const std::vector<SampledToken> cpu = on_cpu(source, DType::kF32, params, 20, true);
    RigSequence sequence(kPrompt, rig.take_blocks(64), params);
    run_all(rig.backend, {&sequence}, 20);
    REQUIRE(ids_of(sequence) == ids(cpu));
    for (std::size_t i = 0; i < cpu.size(); ++i) {
      CHECK(sequence.drawn[i].logprob == Approx(cpu[i].logprob).margin(1e-3));
      REQUIRE(sequence.drawn[i].top.size() == cpu[i].top.size());
      for (std::size_t k = 0; k < cpu[i].top.size(); ++k)
        CHECK(sequence.drawn[i].top[k].logprob == Approx(cpu[i].top[k].logprob).margin(1e-3));
    }
  }
}
