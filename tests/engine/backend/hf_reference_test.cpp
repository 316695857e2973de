// Hugging Face folders give the logits of the reference, and broken models no more than a message.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "engine/base/error.hpp"
#include "tests/engine/backend/cpu_rig.hpp"
#include "tests/support/reference_cases.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;

namespace {

/// GELU models carry a second, exact calculation; the main one rounds its GELU.
std::string kind_of(const ReferenceCase& c) {
  return c.offsets.contains("exact") ? "exact" : "logits";
}

void check_folder(const std::string& name, const std::string& form, const std::string& cases) {
  const auto dir = shared_dir("reference/hf/" + name);
  if (!dir) return;
  const ReferenceCases reference(*dir / cases);
  CpuRig rig(*dir / form);
  for (const ReferenceCase& c : reference.cases()) {
    if (c.kv != "f32") continue;
    CAPTURE(name, form, c.id);
    const std::vector<float> got =
        pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
    const std::string kind = kind_of(c);
    CHECK(max_difference(got, reference.logits(c, kind)) < c.tolerance.at(kind));
    CHECK(rig.greedy(c.tokens, c.greedy.size()) == c.greedy);
  }
}

}  // namespace

TEST_CASE("folders give the reference logits and greedy tokens") {
  for (const char* name : {"llama-gqa", "qwen2", "qwen3", "gemma3", "gpt2"}) {
    check_folder(name, "f32", "cases-f32.json");
    check_folder(name, "bf16-sharded", "cases-bf16.json");
  }
  check_folder("mistral-swa", "f32", "cases-f32.json");  // a window on all layers
}

TEST_CASE("the intact control folders give their logits") {
  const auto dir = shared_dir("reference/broken");
  if (!dir) return;
  const ReferenceCases reference(*dir / "ok-cases.json");
  const ReferenceCase& c = reference.cases().at(0);
  for (const char* name : {"hf-ok-tiny", "hf-ok-unpadded-header", "hf-ok-sharded"}) {
    CAPTURE(name);
    CpuRig rig(*dir / name);
    const std::vector<float> got =
        pick_rows(rig.logits(c.tokens, 512), reference.vocab_size(), c.positions);
    CHECK(max_difference(got, reference.logits(c, "logits")) < c.tolerance.at("logits"));
  }
}

TEST_CASE("every broken file and folder of the reference is refused in one sentence") {
  const auto dir = shared_dir("reference/broken");
  if (!dir) return;
  std::ifstream manifest(*dir / "manifest.tsv");
  std::string line;
  std::getline(manifest, line);  // the head of the table
  std::size_t refused = 0;
  while (std::getline(manifest, line)) {
    const std::string name = line.substr(0, line.find('\t'));
    // "or load" marks those that may be loaded; vocabularies are not read here.
    const bool may_load =
        name.find("ok-") != std::string::npos || line.find(", or ") != std::string::npos;
    CAPTURE(name);
    try {
      const CpuRig rig(*dir / name);
      CHECK(may_load);
    } catch (const Error& error) {
      const std::string message = error.what();
      CHECK(name.find("ok-") == std::string::npos);
      CHECK(message.size() < 600);
      CHECK(message.find('\n') == std::string::npos);
      ++refused;
    }
  }
  CHECK(refused >= 60);
}
