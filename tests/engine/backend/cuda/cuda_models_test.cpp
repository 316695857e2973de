// Every option of the decoder that the CUDA backend takes, against the CPU backend; and what it
// refuses.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/cuda/model_support.hpp"
#include "engine/base/error.hpp"
#include "tests/engine/backend/cuda/cuda_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Largest difference over the largest logit.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return HUGE_VAL;
  double worst = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = d <= worst ? worst : (d == d ? d : HUGE_VAL);
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

/// The same tokens in one chunk on both; f32 KV.
double difference_to_cpu(const std::filesystem::path& model, bool precise) {
  const auto source = open_model(model);
  const ModelConfig config = read_model_config(*source);
  std::mt19937 random(17);
  std::vector<TokenId> tokens(21);
  for (TokenId& t : tokens)
    t = static_cast<TokenId>(random() % static_cast<std::uint32_t>(config.vocab_size));
  CpuBackendOptions cpu_options;
  cpu_options.threads = 1;
  cpu_options.precise = true;
  cpu_options.kv_type_k = cpu_options.kv_type_v = DType::kF32;
  CpuBackend cpu(source, config, cpu_options);
  cpu.allocate_pool({4, 16});
  StepSlice slice;
  slice.tokens = tokens;
  slice.blocks = {0, 1};
  const std::vector<float> expected = cpu.logits({0, {slice}});
  CudaBackendOptions options = small_cuda_options();
  options.precise = precise;
  CudaRig rig(source, options);
  return relative_difference(rig.logits(tokens, 13), expected);
}

std::string refusal(const std::filesystem::path& model, const KvTypes& kv = {}) {
  const auto source = open_model(model);
  return why_not_on_cuda(*source, read_model_config(*source), kv, false);
}

}  // namespace

TEST_CASE("models of every dense family give the logits of the CPU backend") {
  for (const char* name : {"llama-gqa", "llama-mha",     "llama-rope-yarn", "qwen2",      "qwen3",
                           "phi3",      "phi3-longrope", "gemma",           "gemma2",     "gemma3",
                           "gpt2",      "gptneox",       "falcon",          "cohere2",    "olmo2",
                           "olmo3",     "smollm3",       "stablelm",        "starcoder2", "granite",
                           "glm4"}) {
    const auto dir = shared_dir(std::string("reference/models/") + name);
    if (!dir) return;
    CAPTURE(name);
    // Sums in another order, and exponentials that differ in the last digits.
    CHECK(difference_to_cpu(*dir / "model.gguf", true) < 2e-4);
  }
}

TEST_CASE("weights of every type with kernels give nearly the logits of exact activations") {
  for (const char* name : {"F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K"}) {
    const auto dir = shared_dir(std::string("reference/quant/") + name);
    if (!dir) return;
    CAPTURE(name);
    // Inputs of quantised matrices are rounded to 8 bits.
    CHECK(difference_to_cpu(*dir / "model.gguf", false) < 0.05);
  }
  // Decoded to f32 they are as exact as any.
  for (const char* name : {"Q4_K_M", "IQ4_XS"}) {
    const auto dir = shared_dir(std::string("reference/quant/") + name);
    if (!dir) return;
    CAPTURE(name);
    CHECK(difference_to_cpu(*dir / "model.gguf", true) < 2e-4);
  }
}

TEST_CASE("what the CUDA backend can't compute is refused with what is missing") {
  const auto models = shared_dir("reference/models");
  const auto quant = shared_dir("reference/quant");
  if (!models || !quant) return;
  CHECK(refusal(*models / "llama-gqa" / "model.gguf") == "");
  CHECK(refusal(*models / "mixtral" / "model.gguf") ==
        "mixtures of experts are computed on the CPU only");
  CHECK(refusal(*models / "qwen3moe" / "model.gguf").find("experts") != std::string::npos);
  const std::string type = refusal(*quant / "Q2_K" / "model.gguf");
  CHECK(type.find("the tensor ") == 0);
  CHECK(type.find(" has the type q2_k, which no kernel reads") != std::string::npos);
  CHECK(type.find("--precise") != std::string::npos);
  const KvTypes kv{DType::kF16, DType::kQ4_0, {}, 0};
  CHECK(refusal(*models / "llama-gqa" / "model.gguf", kv).find("a KV cache in q4_0") == 0);

  const auto source = open_model(*models / "mixtral" / "model.gguf");
  try {
    CudaBackend backend(open_device_under_test(), source, read_model_config(*source), {});
    FAIL("a model with experts was taken");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUnsupported);
    CHECK(std::string(error.what()).find("mixtures of experts") != std::string::npos);
  }
}
