// Failed calls of the CUDA runtime become sentences; a backend made anew goes on.
#include <catch2/catch.hpp>
#include <string>

#include "engine/base/error.hpp"
#include "tests/engine/backend/cuda/cuda_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

using Injections = std::shared_ptr<std::vector<Injection>>;

Injections injections(std::vector<Injection> list = {}) {
  return std::make_shared<std::vector<Injection>>(std::move(list));
}

const std::vector<TokenId> kPrompt{1, 403, 407, 261, 378};

}  // namespace

TEST_CASE("memory that a device does not have is an error at each place that takes some") {
  if (!on_host_shim()) return;
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  const std::size_t before = device_bytes_taken();
  int failures = 0;
  for (int skip = 0;; ++skip) {
    const Injections list = injections({{"cudaMallocFromPoolAsync", skip, 2}});
    try {
      CudaRig rig(source, small_cuda_options(), {false, list});
      break;  // all allocations went well
    } catch (const Error& error) {
      ++failures;
      CAPTURE(skip);
      CHECK(error.code() == ErrorCode::kDoesNotFit);
      const std::string what = error.what();
      CHECK(what.find("taking memory for ") == 0);
      CHECK(what.find("cudaMallocFromPoolAsync failed with code 2") != std::string::npos);
      CHECK(what.find("--memory") != std::string::npos);
    }
    CHECK(device_bytes_taken() == before);
  }
  CHECK(failures >= 6);  // weights, work buffers, staging, sampling (2), pool, regions, attention
  CHECK(device_bytes_taken() == before);
}

TEST_CASE("a call that fails while the backend is made names itself") {
  if (!on_host_shim()) return;
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  const std::size_t before = device_bytes_taken();
  for (const char* call :
       {"cudaSetDevice", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cudaHostAlloc",
        "cudaMemcpyAsync", "cudaMemsetAsync", "cudaEventRecord", "cudaStreamSynchronize"}) {
    CAPTURE(call);
    try {
      CudaRig rig(source, small_cuda_options(), {false, injections({{call, 0, 999}})});
      FAIL("it went well");
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find(std::string(call) + " failed with code 999") !=
            std::string::npos);
    }
    CHECK(device_bytes_taken() == before);
  }
}

TEST_CASE("a failed call in a step ends it with call and code and hint") {
  if (!on_host_shim()) return;
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  for (const bool deferred : {false, true}) {
    for (const char* call : {"cudaSetDevice", "cudaMemcpyAsync", "a kernel launch", "matvec_f32",
                             "attention_fold", "cudaEventRecord", "cudaStreamBeginCapture",
                             "cudaGraphInstantiate", "cudaGraphLaunch", "cudaEventQuery"}) {
      CAPTURE(deferred, call);
      const Injections list = injections();
      CudaRig rig(source, small_cuda_options(), {deferred, list});
      RigSequence sequence(kPrompt, rig.take_blocks(32), greedy_params());
      run_all(rig.backend, {&sequence}, 2);  // the next step would record a graph
      list->push_back({call, 0, 719});
      StepBatch batch;
      batch.slices = {sequence.slice(1, 8)};
      std::string fatal = rig.backend.step(batch).fatal;
      if (fatal.empty()) fatal = rig.backend.step(batch).fatal;
      CHECK(fatal.find("CUDA device 0 (host shim): ") == 0);
      CHECK(fatal.find(std::string(call) + " failed with code 719") != std::string::npos);
      CHECK(fatal.find("Xid") != std::string::npos);
      // A sticky failure: nothing works any more.
      CHECK(rig.backend.step(batch).fatal != "");
    }
  }
}

TEST_CASE("after a lost device a backend made anew tells the rest of the story") {
  if (!on_host_shim()) return;
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  std::vector<TokenId> whole;
  {
    CudaRig rig(source, small_cuda_options());
    RigSequence sequence(kPrompt, rig.take_blocks(64), greedy_params());
    run_all(rig.backend, {&sequence}, 20);
    whole = sequence.tokens;
  }
  const Injections list = injections();
  std::vector<TokenId> so_far;
  {
    CudaRig rig(source, small_cuda_options(), {true, list});
    RigSequence sequence(kPrompt, rig.take_blocks(64), greedy_params());
    run_all(rig.backend, {&sequence}, 9);
    list->push_back({"cudaGraphLaunch", 0, 700});
    CHECK_THROWS(run_all(rig.backend, {&sequence}, 20));
    so_far = sequence.tokens;
    CHECK(so_far.size() == kPrompt.size() + 9);
  }
  CudaRig rig(source, small_cuda_options(), {true, list});
  RigSequence sequence(so_far, rig.take_blocks(64), greedy_params());
  run_all(rig.backend, {&sequence}, 11);
  CHECK(sequence.tokens == whole);
}

TEST_CASE("a bad slice fails alone on a device") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  CudaRig rig(open_model(*file), small_cuda_options());
  RigSequence good(kPrompt, rig.take_blocks(32), greedy_params());
  RigSequence bad({1, 9999}, rig.take_blocks(32), greedy_params());
  StepBatch batch;
  batch.slices = {bad.slice(1, 8), good.slice(2, 8)};
  const StepResult result = rig.backend.step(batch);
  CHECK(result.fatal == "");
  CHECK(result.slices.at(0).error == "the token 9999 is outside the vocabulary of 512");
  CHECK_FALSE(result.slices.at(0).token.has_value());
  CHECK(result.slices.at(1).error == "");
  CHECK(result.slices.at(1).token.has_value());
  SamplingParams params = greedy_params();
  params.logit_bias = {{5, HUGE_VALF}};
  RigSequence unbounded(kPrompt, rig.take_blocks(32), params);
  batch.slices = {unbounded.slice(3, 8)};
  CHECK(rig.backend.step(batch).slices.at(0).error ==
        "the logit biases and penalties leave no finite logits for position 5; use smaller ones");
  CHECK(rig.backend.step({7, {}}).number == 7);
}

TEST_CASE("everything a backend took is given back") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  const std::size_t before = device_bytes_taken();
  for (const bool deferred : {false, true}) {
    CudaRig rig(source, small_cuda_options(), {deferred, nullptr}, 16, 4);
    RigSequence sequence(kPrompt, rig.take_blocks(32), greedy_params());
    run_all(rig.backend, {&sequence}, 5);
    const BackendMemory memory = rig.backend.memory();
    CHECK(memory.weights_bytes > 1000000);
    CHECK(memory.kv_bytes > 0);
    CHECK(memory.swap_bytes > 0);
    CHECK(memory.scratch_bytes > 0);
    rig.backend.allocate_pool({8, 16});
    CHECK(rig.backend.memory().kv_bytes < memory.kv_bytes);
  }
  CHECK(device_bytes_taken() == before);
}
