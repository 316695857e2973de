// What the CPU backend promises beside the numbers: errors as values, memory, isolation.
#include "engine/backend/cpu_backend.hpp"

#include <unistd.h>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <string>

#include "engine/base/error.hpp"
#include "engine/model/decoder_scratch.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

std::shared_ptr<const SamplingParams> greedy() {
  auto params = std::make_shared<SamplingParams>();
  params->temperature = 0;
  return params;
}

StepSlice slice_of(std::vector<TokenId> tokens, std::vector<BlockId> blocks) {
  StepSlice slice;
  slice.sequence = 1;
  slice.tokens = std::move(tokens);
  slice.blocks = std::move(blocks);
  slice.sample = true;
  slice.sampling = greedy();
  return slice;
}

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(std::string(e.what()).size() > 20);
    return e.code();
  }
  FAIL("no error");
  return ErrorCode::kInternal;
}

/// Resident anonymous memory of this process, in bytes.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("a slice that breaks the rules gets an error and its neighbours a token") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  CpuBackendOptions options = f32_kv();
  options.max_batch_tokens = 40;
  CpuRig rig(*dir / "model.gguf", options);
  const std::vector<std::pair<std::string, std::function<void(StepSlice&)>>> breaches = {
      {"no tokens", [](StepSlice& s) { s.tokens.clear(); }},
      {"token below range", [](StepSlice& s) { s.tokens[1] = -1; }},
      {"token above range", [](StepSlice& s) { s.tokens[1] = 331; }},
      {"table too short", [](StepSlice& s) { s.tokens.resize(17); }},
      {"no table", [](StepSlice& s) { s.blocks.clear(); }},
      {"block below range", [](StepSlice& s) { s.blocks[0] = -1; }},
      {"block above range", [](StepSlice& s) { s.blocks[0] = CpuRig::kBlocks; }},
      {"negative position", [](StepSlice& s) { s.first_position = -1; }},
      {"position past the table", [](StepSlice& s) { s.first_position = 15; }},
      {"largest position",
       [](StepSlice& s) { s.first_position = std::numeric_limits<Position>::max(); }},
      {"chunk too large",
       [](StepSlice& s) {
         s.tokens.resize(41);
         s.blocks = {1, 2, 3};
       }},
      {"no room left",
       [](StepSlice& s) {
         s.tokens.resize(39);
         s.blocks = {1, 2, 3};
       }},
      {"no parameters", [](StepSlice& s) { s.sampling = nullptr; }},
      {"no history",
       [](StepSlice& s) {
         auto params = std::make_shared<SamplingParams>();
         params->presence_penalty = 1;
         s.sampling = params;
       }},
  };
  const TokenId expected =
      rig.backend.step({0, {slice_of({5, 6}, {9})}}).slices.at(0).token.value().id;
  for (const auto& [name, breach] : breaches) {
    CAPTURE(name);
    StepSlice broken = slice_of({1, 2}, {3});
    breach(broken);
    StepBatch batch{77, {slice_of({5, 6}, {9}), broken, slice_of({5, 6}, {10})}};
    batch.slices[2].sequence = 3;
    const StepResult result = rig.backend.step(batch);
    CHECK(result.number == 77);
    CHECK(result.fatal.empty());
    REQUIRE(result.slices.size() == 3);
    CHECK_FALSE(result.slices[1].error.empty());
    CHECK_FALSE(result.slices[1].token.has_value());
    CHECK(result.slices[0].token.value().id == expected);
    CHECK(result.slices[2].token.value().id == expected);
    CHECK(result.slices[2].sequence == 3);
  }
}

TEST_CASE("an empty step and a step without a pool are harmless") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  CpuBackend backend(source, read_model_config(*source), f32_kv());
  CHECK(backend.step({}).slices.empty());
  CHECK(backend.step({0, {slice_of({1}, {0})}}).slices.at(0).error.find("pool") !=
        std::string::npos);
  CHECK(code_of([&] { backend.logits({0, {slice_of({1}, {0})}}); }) == ErrorCode::kInvalidArgument);
}

TEST_CASE("weights that are not numbers end the sequence with an error") {
  const auto dir = shared_dir("reference/broken");
  if (!dir) return;
  CpuRig rig(*dir / "nan-weights.gguf");
  // Every token once: those whose logits are numbers get a token, the others an error.
  int errors = 0;
  for (TokenId t = 0; t < rig.config.vocab_size; ++t) {
    const StepResult result = rig.backend.step({0, {slice_of({t, 1, 2}, {0})}});
    CHECK(result.fatal.empty());
    CHECK(result.slices.at(0).error.empty() == result.slices.at(0).token.has_value());
    if (!result.slices.at(0).error.empty()) ++errors;
  }
  CHECK(errors > 0);
}

TEST_CASE("one sequence with broken numbers does not touch its neighbours") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  CpuRig rig(*dir / "model.gguf");
  const StepBatch alone{0, {slice_of({5, 6, 7}, {9})}};
  const std::vector<float> expected = rig.backend.logits(alone);
  auto bad = std::make_shared<SamplingParams>();
  bad->logit_bias = {{3, std::numeric_limits<float>::infinity()}};
  StepBatch batch{0, {slice_of({1, 2}, {1}), slice_of({5, 6, 7}, {9})}};
  batch.slices[0].sampling = bad;
  const StepResult result = rig.backend.step(batch);
  CHECK_FALSE(result.slices.at(0).error.empty());
  CHECK(result.slices.at(1).token.has_value());
  CHECK(rig.backend.logits(alone) == expected);
}

TEST_CASE("the pool has exactly its size and is taken as it is touched and given back") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  const ModelConfig config = read_model_config(*source);
  CpuBackendOptions options = f32_kv();
  options.kv_type_k = DType::kF16;
  CpuBackend backend(source, config, options);
  CHECK(backend.memory().kv_bytes == 0);
  const auto layers = static_cast<std::size_t>(config.num_layers);
  const auto kv_dim = static_cast<std::size_t>(config.kv_dim());
  backend.allocate_pool({100000, 16});
  const std::size_t pool = 100000 * 16 * layers * kv_dim * (2 + 4);
  CHECK(backend.memory().kv_bytes == pool);
  REQUIRE(pool > (std::size_t{300} << 20));
  const std::size_t before = resident_bytes();
  backend.step({0, {slice_of({1, 2, 3}, {99999})}});
  CHECK(resident_bytes() < before + pool / 4);
  for (int i = 0; i < 50; ++i) backend.allocate_pool({100000, 16});
  backend.allocate_pool({3, 8});
  CHECK(backend.memory().kv_bytes == 3 * 8 * layers * kv_dim * (2 + 4));
  CHECK(resident_bytes() < before + pool / 4);

  CHECK(code_of([&] { backend.allocate_pool({0, 16}); }) == ErrorCode::kInvalidArgument);
  CHECK(code_of([&] { backend.allocate_pool({16, -1}); }) == ErrorCode::kInvalidArgument);
  CHECK(code_of([&] {
          backend.allocate_pool({2000000000, 2000000000});
        }) == ErrorCode::kDoesNotFit);
  CHECK(code_of([&] { backend.allocate_pool({2000000000, 16000}); }) == ErrorCode::kDoesNotFit);
  CHECK(backend.memory().kv_bytes == 0);  // the old one is gone, no new one came
}

TEST_CASE("memory is counted as planned") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  const ModelConfig config = read_model_config(*source);
  CpuBackendOptions options = f32_kv(3);
  options.max_batch_tokens = 100;
  options.max_sampled_rows = 10;
  const CpuBackend backend(source, config, options);
  std::size_t weights = 0;
  for (const TensorView& t : source->tensors()) weights += t.data.size();
  CHECK(backend.memory().weights_bytes == weights);
  CHECK(backend.memory().scratch_bytes == decoder_scratch_bytes(config, 100, 10, 3));
  CHECK(backend.memory().scratch_bytes > std::size_t{4} * 100 * 64);
}

TEST_CASE("the description names kernels and threads") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  const ModelConfig config = read_model_config(*source);
  CHECK(CpuBackend(source, config, f32_kv(1, "scalar")).description() ==
        "CPU, scalar, 1 thread, exact activations");
  const std::string any = make_cpu_backend(source, config, f32_kv(3))->description();
  CHECK(any.find(", 3 threads") != std::string::npos);
}

TEST_CASE("options that make no sense are refused with a sentence") {
  const auto dir = shared_dir("reference/models/llama-gqa");
  if (!dir) return;
  const auto source = open_model(*dir / "model.gguf");
  const ModelConfig config = read_model_config(*source);
  const auto code = [&](const std::function<void(CpuBackendOptions&)>& change) {
    CpuBackendOptions options = f32_kv();
    change(options);
    return code_of([&] { make_cpu_backend(source, config, options); });
  };
  CHECK(code([](auto& o) { o.threads = -1; }) == ErrorCode::kInvalidArgument);
  CHECK(code([](auto& o) { o.threads = 100000; }) == ErrorCode::kInvalidArgument);
  CHECK(code([](auto& o) { o.max_batch_tokens = 0; }) == ErrorCode::kInvalidArgument);
  CHECK(code([](auto& o) { o.max_sampled_rows = 0; }) == ErrorCode::kInvalidArgument);
  CHECK(code([](auto& o) { o.kernels = "mmx"; }) == ErrorCode::kInvalidArgument);
  CHECK(code([](auto& o) { o.kv_type_k = DType::kQ4_K; }) == ErrorCode::kUnsupported);
  CHECK(code([](auto& o) { o.kv_type_v = DType::kQ5_0; }) == ErrorCode::kUnsupported);
  CHECK(code([](auto& o) {
          o.kv_layers = {{0, 99, DType::kF16, DType::kF16}};
        }) == ErrorCode::kInvalidArgument);
}
