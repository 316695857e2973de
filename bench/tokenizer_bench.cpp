// How fast text becomes tokens, on one core: published tokenizers over English prose, and texts
// that make a careless encoder quadratic (one letter, no white space, nothing but spaces), of two
// sizes, so that a rate that falls with the size shows.
//
// Needs the reference data; see tests/support/shared_data.hpp for where it lies. Prose is the
// text that the bundled model is validated with.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "engine/tokenizer/tokenizer.hpp"
#include "tests/support/paths.hpp"

namespace {

namespace fs = std::filesystem;
using namespace sluice;

fs::path shared_dir() {
  const char* from_environment = std::getenv("SLUICE_SHARED");
  return from_environment != nullptr ? fs::path(from_environment)
                                     : test::source_dir().parent_path() / "shared";
}

std::string prose(std::size_t size) {
  std::ifstream file(shared_dir() / "models/demo/validation.txt", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::string out;
  while (!text.empty() && out.size() < size) out += text;
  out.resize(std::min(out.size(), size));
  return out;
}

std::string letters(std::size_t size) {
  std::mt19937 random(7);
  std::string text(size, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

std::string make_text(const std::string& kind, std::size_t size) {
  if (kind == "prose") return prose(size);
  if (kind == "one letter") return std::string(size, 'a');
  if (kind == "spaces") return std::string(size, ' ');
  return letters(size);
}

void encode(benchmark::State& state, const std::string& model, const std::string& kind,
            std::size_t size) {
  const auto tokenizer = open_tokenizer(shared_dir() / model);
  const std::string text = make_text(kind, size);
  std::size_t tokens = 0;
  for (auto _ : state) tokens = tokenizer->encode(text, {}).size();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::string> models = {
      {"llama3", "conformance/tokenizers/llama3"},
      {"qwen3", "conformance/tokenizers/qwen3"},
      {"deepseek_v3", "conformance/tokenizers/deepseek_v3"},
      {"llama2", "conformance/tokenizers/llama2"},
      {"gemma3", "conformance/tokenizers/gemma3"},
      {"llama2 as GGUF", "conformance/vocab-gguf/llama-spm/ggml-vocab-llama-spm.gguf"},
      {"falcon as GGUF", "conformance/vocab-gguf/falcon/ggml-vocab-falcon.gguf"}};
  for (const auto& [name, path] : models) {
    if (!fs::exists(shared_dir() / path)) continue;
    for (const char* kind : {"prose", "one letter", "no white space", "spaces"}) {
      for (const std::size_t kib : {std::size_t{64}, std::size_t{1024}}) {
        const std::string label = name + "/" + kind + "/" + std::to_string(kib) + " KiB";
        benchmark::RegisterBenchmark(label.c_str(),
                                     [path = path, kind, kib](benchmark::State& state) {
                                       encode(state, path, kind, kib << 10);
                                     })
            ->Unit(benchmark::kMillisecond)
            ->MinTime(0.3);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
