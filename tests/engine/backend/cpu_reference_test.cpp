// Logits and greedy tokens against another implementation's.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

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

/// The largest difference over all comparisons of a test.
struct Worst {
  double difference = 0;
  std::string where;
  int models = 0;

  void add(double found, const std::string& place) {
    if (found <= difference) return;
    difference = found;
    where = place;
  }
  void report() const {
    if (models > 0)
      WARN(models << " models; largest difference of a logit " << difference << ", " << where);
  }
};

/// The expected logits that come closest to exact arithmetic on the file's weights.
std::string best_kind(const ReferenceCase& c) {
  for (const char* kind : {"dequant", "exact"})
    if (c.offsets.contains(kind)) return kind;
  return "logits";
}

/// One case: the whole prompt at once, in pieces, token by token, then greedy tokens.
void check_case(const std::shared_ptr<const ModelSource>& source, const ReferenceCases& reference,
                const ReferenceCase& c, const std::string& kernels, Worst& worst) {
  const std::string kind = best_kind(c);
  const double tolerance = c.tolerance.at(kind);
  const std::vector<float> expected = reference.logits(c, kind);
  CpuBackendOptions options = f32_kv(2, kernels);
  options.kv_type_k = options.kv_type_v = dtype_from_name(c.kv).value();
  ModelConfig config = read_model_config(*source);
  config.context_in_use = c.n_ctx;
  CpuRig rig(source, config, options);
  for (const std::size_t chunk : {512U, 7U, 1U}) {
    CAPTURE(chunk);
    const double difference = max_difference(
        pick_rows(rig.logits(c.tokens, chunk), reference.vocab_size(), c.positions), expected);
    CHECK(difference < tolerance);
    if (c.kv == "f32")
      worst.add(difference, source->path().parent_path().filename().string() + " " + c.id +
                                " in pieces of " + std::to_string(chunk));
  }
  if (c.kv != "f32") return;
  const std::vector<TokenId> greedy = c.certain_tokens(kind, tolerance);
  CHECK(rig.greedy(c.tokens, greedy.size()) == greedy);
}

/// Every case of a folder with a model.gguf and a cases.json.
void check_folder(const std::filesystem::path& dir, const std::string& kernels, Worst& worst) {
  const ReferenceCases reference(dir / "cases.json");
  const auto source = open_model(dir / "model.gguf");
  ++worst.models;
  for (const ReferenceCase& c : reference.cases()) {
    CAPTURE(dir.filename(), c.id, kernels);
    check_case(source, reference, c, kernels, worst);
  }
}

/// The folders of `where`, in alphabetical order.
std::vector<std::filesystem::path> folders(const std::string& where) {
  std::vector<std::filesystem::path> found;
  if (const auto dir = shared_dir(where))
    for (const auto& entry : std::filesystem::directory_iterator(*dir)) found.push_back(entry);
  std::ranges::sort(found);
  return found;
}

}  // namespace

TEST_CASE("every architecture gives the reference logits and greedy tokens") {
  Worst worst;
  for (const auto& dir : folders("reference/models")) check_folder(dir, "", worst);
  worst.report();
}

TEST_CASE("every weight type gives the logits of its dequantised weights") {
  Worst worst;
  for (const auto& dir : folders("reference/quant")) check_folder(dir, "", worst);
  worst.report();
}

TEST_CASE("every instruction set gives the reference logits") {
  for (const std::string& kernels : kernel_keys()) {
    Worst worst;
    for (const char* folder : {"models/gemma2", "models/gpt-oss", "models/stablelm", "quant/F16",
                               "quant/BF16", "quant/Q8_0", "quant/Q4_K_M"})
      if (const auto dir = shared_dir(std::string("reference/") + folder))
        check_folder(*dir, kernels, worst);
    worst.report();
  }
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
