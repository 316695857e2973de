// Logits and greedy tokens against another implementation's.
#include <catch2/catch.hpp>
#include <string>

#include "kernels/cpu/cpu_info.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/reference_cases.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<std::string> kernel_keys() {
  std::vector<std::string> keys;
  for (const auto isa : {kernels::Isa::kScalar, kernels::Isa::kAvx2, kernels::Isa::kAvx512})
    if (kernels::isa_supported(isa)) keys.emplace_back(kernels::isa_key(isa));
  return keys;
}

/// Compares every case of a folder that this build can run. `kind` names the expected logits.
void check_folder(const std::string& folder, const std::string& kind, const std::string& kernels) {
  const auto dir = shared_dir(folder);
  if (!dir) return;
  const ReferenceCases reference(*dir / "cases.json");
  for (const ReferenceCase& c : reference.cases()) {
    if (c.kv != "f32" && c.kv != "f16") continue;
    CAPTURE(folder, c.id, kernels);
    CpuBackendOptions options = f32_kv(2, kernels);
    if (c.kv == "f16") options.kv_type_k = options.kv_type_v = DType::kF16;
    CpuRig rig(*dir / "model.gguf", options);
    const std::vector<float> got =
        pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
    CHECK(max_difference(got, reference.logits(c, kind)) < c.tolerance.at(kind));
    if (c.kv != "f32") continue;
    const std::vector<TokenId>& greedy = kind == "dequant" ? c.dequant_greedy : c.greedy;
    CHECK(rig.greedy(c.tokens, greedy.size()) == greedy);
  }
}

}  // namespace

TEST_CASE("F32 llama models give the reference logits and greedy tokens") {
  for (const std::string& kernels : kernel_keys()) {
    check_folder("reference/models/llama-gqa", "logits", kernels);
    check_folder("reference/models/llama-mha", "logits", kernels);
    check_folder("reference/models/stories260K", "logits", kernels);
  }
}

TEST_CASE("quantised llama models give the logits of their dequantised weights") {
  for (const std::string& kernels : kernel_keys()) {
    check_folder("reference/quant/F16", "dequant", kernels);
    check_folder("reference/quant/BF16", "dequant", kernels);
    check_folder("reference/quant/Q8_0", "dequant", kernels);
    check_folder("reference/quant/stories260K-Q8_0", "dequant", kernels);
  }
}

TEST_CASE("every block type goes through the generic path and gives the same accuracy") {
  for (const char* type : {"Q4_0", "Q4_1", "Q5_0", "Q2_K", "Q3_K_M", "Q3_K_S", "Q4_K_M", "Q4_K_S",
                           "Q5_K_M", "Q5_K_S", "Q6_K", "IQ4_NL", "IQ4_XS"})
    check_folder(std::string("reference/quant/") + type, "dequant", "");
}

TEST_CASE("the intact control files give their logits") {
  const auto dir = shared_dir("reference/broken");
  if (!dir) return;
  const ReferenceCases reference(*dir / "ok-cases.json");
  const ReferenceCase& c = reference.cases().at(0);
  for (const char* name :
       {"ok-tiny", "ok-version-2", "ok-trailing-bytes", "ok-extra-keys", "ok-alignment-64"}) {
    CAPTURE(name);
    CpuRig rig(*dir / (std::string(name) + ".gguf"));
    const std::vector<float> got =
        pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
    CHECK(max_difference(got, reference.logits(c, "logits")) < c.tolerance.at("logits"));
  }
}

TEST_CASE("biases and head norms and the pairing of halves give the reference logits") {
  // Two architectures of the same graph, described by hand.
  for (const char* name : {"qwen2", "qwen3"}) {
    const auto dir = shared_dir(std::string("reference/models/") + name);
    if (!dir) return;
    const auto source = open_model(*dir / "model.gguf");
    const auto number = [&](const std::string& key) {
      return static_cast<std::int32_t>(source->require_int(name + ("." + key)));
    };
    ModelConfig config;
    config.architecture = name;
    config.num_layers = number("block_count");
    config.hidden_size = number("embedding_length");
    config.num_heads = number("attention.head_count");
    config.num_kv_heads = number("attention.head_count_kv");
    const auto key_length = source->get_int(std::string(name) + ".attention.key_length");
    config.head_dim =
        key_length ? static_cast<std::int32_t>(*key_length) : config.hidden_size / config.num_heads;
    config.ffn_size = number("feed_forward_length");
    config.vocab_size = 331;
    config.norm_epsilon = static_cast<float>(
        source->require_float(std::string(name) + ".attention.layer_norm_rms_epsilon"));
    config.rope_base =
        static_cast<float>(source->require_float(std::string(name) + ".rope.freq_base"));
    config.rope_dims = config.head_dim;
    config.rope_layout = RopeLayout::kHalves;
    config.tied_embeddings = source->find_tensor("output.weight") == nullptr;
    const ReferenceCases reference(*dir / "cases.json");
    CpuRig rig(source, config, f32_kv());
    for (const ReferenceCase& c : reference.cases()) {
      if (c.kv != "f32") continue;
      CAPTURE(name, c.id);
      const std::vector<float> got =
          pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
      CHECK(max_difference(got, reference.logits(c, "logits")) < c.tolerance.at("logits"));
      CHECK(rig.greedy(c.tokens, c.greedy.size()) == c.greedy);
    }
  }
}
