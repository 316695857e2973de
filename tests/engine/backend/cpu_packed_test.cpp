// The fast mode: packed weights, activations rounded to 8 bits.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "engine/backend/weight_packer.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/reference_cases.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

CpuBackendOptions fast(std::int32_t threads = 2, const std::string& kernels = "") {
  CpuBackendOptions options = f32_kv(threads, kernels);
  options.precise = false;
  return options;
}

/// Root of the mean square of the differences.
double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += d * d;
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

/// How far logits of this weight type may be from an engine that rounds in its own way.
double allowed_difference(const std::string& type) {
  if (type == "F16") return 0.03;
  return type == "BF16" ? 0.3 : 1.0;
}

std::vector<std::filesystem::path> quantised_models() {
  std::vector<std::filesystem::path> found;
  if (const auto dir = shared_dir("reference/quant"))
    for (const auto& entry : std::filesystem::directory_iterator(*dir))
      found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

}  // namespace

TEST_CASE("rounded activations stay near the logits of another engine that rounds them") {
  double worst = 0.0;
  double worst_rms = 0.0;
  for (const auto& dir : quantised_models()) {
    // Experts that are nearly equal may swap: a single position can be far off.
    if (dir.filename() == "MXFP4_MOE") continue;
    const ReferenceCases reference(dir / "cases.json");
    CpuRig rig(dir / "model.gguf", fast());
    for (const ReferenceCase& c : reference.cases()) {
      if (c.kv != "f32") continue;
      CAPTURE(dir.filename(), c.id);
      const std::vector<float> got =
          pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
      const std::vector<float> expected = reference.logits(c, "logits");
      const double difference = max_difference(got, expected);
      const double rms = rms_difference(got, expected);
      CHECK(difference < allowed_difference(dir.filename().string()));
      CHECK(rms < 0.2);
      worst = std::max(worst, difference);
      worst_rms = std::max(worst_rms, rms);
    }
  }
  if (worst > 0) WARN("largest difference " << worst << ", largest rms " << worst_rms);
}

TEST_CASE("fast logits do not depend on chunks or threads or the instruction set") {
  for (const auto& dir : quantised_models()) {
    const ReferenceCases reference(dir / "cases.json");
    const std::vector<TokenId>& tokens = reference.cases().at(2).tokens;
    CAPTURE(dir.filename());
    const std::vector<float> expected = CpuRig(dir / "model.gguf", fast(1)).logits(tokens, 512);
    for (const std::int32_t threads : {1, 3})
      for (const std::size_t chunk : {512U, 13U, 1U}) {
        CAPTURE(threads, chunk);
        CHECK(CpuRig(dir / "model.gguf", fast(threads)).logits(tokens, chunk) == expected);
      }
  }
}

TEST_CASE("the plan counts the weights that a backend keeps") {
  for (const auto& dir : quantised_models())
    for (const bool precise : {false, true}) {
      CAPTURE(dir.filename(), precise);
      CpuBackendOptions options = fast();
      options.precise = precise;
      const auto source = open_model(dir / "model.gguf");
      CpuRig rig(source, options, 16);
      CHECK(rig.backend.memory().weights_bytes == resident_weights_bytes(*source, precise));
    }
}
