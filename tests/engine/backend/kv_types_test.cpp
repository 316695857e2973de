// KV types in the whole model: reference figures, independence, bytes.
#include <catch2/catch.hpp>
#include <random>
#include <string>

#include "engine/base/error.hpp"
#include "engine/model/kv_types.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/reference_cases.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

CpuBackendOptions with_types(DType k, DType v) {
  CpuBackendOptions options = f32_kv();
  options.kv_type_k = k;
  options.kv_type_v = v;
  return options;
}

double mean_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return sum / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("half precision and 8 bit KV stay near the reference") {
  const auto dir = shared_dir("reference/models/llama-mha");
  if (!dir) return;
  const ReferenceCases reference(*dir / "cases.json");
  int compared = 0;
  for (const ReferenceCase& c : reference.cases()) {
    if (c.kv == "f32") continue;
    const auto type = dtype_from_name(c.kv);
    REQUIRE(type);
    CAPTURE(c.id);
    CpuRig rig(*dir / "model.gguf", with_types(*type, *type));
    const std::vector<float> got =
        pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
    CHECK(max_difference(got, reference.logits(c, "logits")) < c.tolerance.at("logits"));
    ++compared;
  }
  CHECK(compared >= 6);
}

TEST_CASE("logits depend on the KV types and on nothing else of the storage") {
  const auto dir = shared_dir("reference/quant/F16");
  if (!dir) return;
  std::mt19937 random(7);
  std::vector<TokenId> tokens(150);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % 331);
  const std::vector<float> exact = CpuRig(*dir / "model.gguf").logits(tokens, 512);
  double before = 0;
  for (const auto& [k, v] :
       {std::pair{DType::kF16, DType::kF16}, std::pair{DType::kBF16, DType::kF16},
        std::pair{DType::kF16, DType::kQ8_0}, std::pair{DType::kQ8_0, DType::kQ8_0},
        std::pair{DType::kQ4_0, DType::kQ4_0}}) {
    CAPTURE(traits(k).name, traits(v).name);
    CpuBackendOptions options = with_types(k, v);
    CpuRig first(*dir / "model.gguf", options);
    const std::vector<float> expected = first.logits(tokens, 512);
    for (const std::int32_t threads : {1, 3}) {
      options.threads = threads;
      CpuRig other(*dir / "model.gguf", options, threads == 1 ? 16 : 5);
      other.shuffle(static_cast<std::uint32_t>(threads));
      for (const std::size_t chunk : {1U, 7U, 64U}) CHECK(other.logits(tokens, chunk) == expected);
    }
    const double error = mean_difference(expected, exact);
    CHECK(error > 0.0);
    if (k == DType::kQ4_0) CHECK(error > before);  // the coarsest type errs most
    before = std::max(before, error);
  }
}

TEST_CASE("layers can have types of their own") {
  const auto dir = shared_dir("reference/quant/F16");
  if (!dir) return;
  std::mt19937 random(7);
  std::vector<TokenId> tokens(60);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % 331);
  CpuBackendOptions options = with_types(DType::kQ4_0, DType::kQ4_0);
  CpuRig coarse(*dir / "model.gguf", options);
  options.kv_layers = {{0, 0, DType::kF32, DType::kF32}};
  CpuRig mixed(*dir / "model.gguf", options);
  options.kv_layers = {{0, 0, DType::kQ4_0, DType::kQ4_0},
                       {0, coarse.config.num_layers - 1, DType::kF32, DType::kF32}};
  CpuRig fine(*dir / "model.gguf", options);
  const std::vector<float> exact = CpuRig(*dir / "model.gguf").logits(tokens, 512);
  CHECK(fine.logits(tokens, 512) == exact);
  CHECK(mixed.logits(tokens, 512) != exact);
  CHECK(mean_difference(mixed.logits(tokens, 512), exact) <
        mean_difference(coarse.logits(tokens, 512), exact));

  const auto positions = static_cast<std::size_t>(CpuRig::kBlocks * 16);
  std::size_t bytes = 0;
  for (std::int32_t layer = 0; layer < mixed.config.num_layers; ++layer)
    bytes += kv_layer_bytes({DType::kQ4_0, DType::kQ4_0, {{0, 0, DType::kF32, DType::kF32}}},
                            mixed.config, layer);
  CHECK(mixed.backend.memory().kv_bytes == positions * bytes);
}
