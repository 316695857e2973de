// sluice bench: how fast a model runs here, beside what the machine could do at most.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "bench/server/server_suite.hpp"
#include "bench/suites/random_model.hpp"
#include "bench/suites/suites.hpp"
#include "engine/base/error.hpp"
#include "kernels/cpu/cpu_info.hpp"
#include "kernels/cuda/cuda_device.hpp"

namespace sluice::app {
namespace {

struct Options {
  std::filesystem::path model;
  std::vector<std::string> suites = {"decode", "prefill", "batch"};
  int threads = 0;
  int repeats = 5;
  bool precise = false;
  std::string device = "cpu";
  bool fast_prefill = false;
  std::string kernels;
  std::filesystem::path json;
  std::string make_model;
  std::string type = "q8_0";
};

int make_model(const Options& options) {
  if (options.model.empty())
    throw Error(ErrorCode::kInvalidArgument, "Say where the model goes: --model FILE.");
  const bench::ModelShape shape = bench::parse_shape(options.make_model);
  bench::write_random_model(shape, bench::parse_types(options.type), options.model);
  std::printf("%s: %.0f million random weights in %s\n", options.model.string().c_str(),
              static_cast<double>(shape.parameters()) * 1e-6, options.type.c_str());
  return 0;
}

/// The suite that needs more than a backend, and so is none of bench::suites().
constexpr bench::Suite kServerSuite = {
    "server", "WebSocket streams through a server of its own, and /health meanwhile",
    [](const bench::BenchSettings& settings, bench::LimitProbe&) {
      return bench::run_server_suite(settings);
    }};

std::vector<const bench::Suite*> chosen_suites(const Options& options) {
  std::vector<const bench::Suite*> chosen;
  for (const std::string& name : options.suites) {
    const bench::Suite* suite = name == kServerSuite.name ? &kServerSuite : bench::find_suite(name);
    if (suite == nullptr)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("There is no suite \"{}\"; see sluice bench --help.", name));
    chosen.push_back(suite);
  }
  return chosen;
}

/// What a CUDA device can do by its clocks; empty for the CPU, which is measured.
std::optional<bench::MachineLimits> device_limits(const Options& options) {
  if (options.device != "cuda") return std::nullopt;
  std::string why_not;
  const auto device = kernels::cuda::open_cuda_device(0, why_not);
  if (device == nullptr)
    throw Error(ErrorCode::kUnsupported, fmt::format("No CUDA device: {}.", why_not));
  bench::MachineLimits limits;
  limits.read_gbs = device->properties().bytes_per_second * 1e-9;
  limits.f32_gflops = device->properties().operations_per_second * 1e-9;
  return limits;
}

int run_bench(const Options& options) {
  if (!options.make_model.empty()) return make_model(options);
  bench::BenchSettings settings;
  settings.model = options.model.empty() ? bundled_model() : options.model;
  if (settings.model.empty())
    throw Error(ErrorCode::kNotFound, "No model is given and the bundled one is not there.");
  settings.repeats = options.repeats;
  settings.backend.threads =
      options.threads > 0 ? options.threads : kernels::usable_physical_cores();
  settings.backend.precise = options.precise;
  settings.backend.kernels = options.kernels;
  const std::vector<const bench::Suite*> chosen = chosen_suites(options);

  const kernels::Isa isa = kernels::isa_from_key(options.kernels).value_or(kernels::best_isa());
  settings.cuda = options.device == "cuda";
  settings.fast_prefill = options.fast_prefill;
  const std::optional<bench::MachineLimits> known = device_limits(options);
  bench::LimitProbe probe =
      known ? bench::LimitProbe(*known) : bench::LimitProbe(isa, settings.backend.threads);
  std::string description;
  {
    const bench::BenchEngine engine(settings, 1, 16);
    description = engine.description();
  }
  std::fprintf(stderr, "%s on %s\n", settings.model.string().c_str(), description.c_str());
  std::vector<bench::Figure> figures;
  for (const bench::Suite* suite : chosen) {
    std::fprintf(stderr, "measuring %s ...\n", std::string(suite->name).c_str());
    const std::vector<bench::Figure> more = suite->run(settings, probe);
    figures.insert(figures.end(), more.begin(), more.end());
  }
  const bench::MachineLimits limits = probe.measure();
  std::fputs(bench::table_of(figures, limits).c_str(), stdout);
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << bench::json_of(figures, limits, description) << '\n';
    if (!file.flush())
      throw Error(ErrorCode::kIo, fmt::format("Can't write {}.", options.json.string()));
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "bench", "Measure speed beside the machine's limits, or make a random model to measure");
  command->add_option("-m,--model", options->model,
                      "Model file; default: the bundled one. With --make-model: what to write");
  std::string suite_help = "What to measure:";
  for (const bench::Suite& suite : bench::suites())
    suite_help += fmt::format("\n{}: {}", suite.name, suite.summary);
  suite_help += fmt::format("\n{}: {}", kServerSuite.name, kServerSuite.summary);
  command->add_option("--suite", options->suites, suite_help)->delimiter(',');
  command->add_option("--threads", options->threads, "Threads; default: one per core")
      ->check(CLI::Range(1, 1024));
  command->add_option("--repeats", options->repeats, "Measurements, of which the median counts")
      ->check(CLI::Range(1, 1000));
  command->add_flag("--precise", options->precise, "Activations in f32 instead of 8 bits");
  command->add_option("--device", options->device, "Where to compute: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  command->add_flag("--fast-prefill", options->fast_prefill,
                    "On a CUDA device: prompts through cuBLAS");
  command->add_option("--kernels", options->kernels,
                      "Instruction set: scalar, avx2, avx512, avx512vnni");
  command->add_option("--json", options->json, "Write the figures to this file as well");
  command->add_option("--make-model", options->make_model,
                      "Write a model with random weights of this shape: qwen2.5-0.5b, "
                      "llama-3.2-1b, tiny, or sizes as layers=4,hidden=256,heads=4,kv=2,dim=64,"
                      "ffn=1024,vocab=1000");
  command->add_option("--type", options->type,
                      "Type of the random weights: q8_0, q4_0, q4_k_m, f16, bf16, ...");
  command->footer(
      "Examples:\n"
      "  sluice bench --make-model qwen2.5-0.5b --type q8_0 -m random.gguf\n"
      "  sluice bench -m random.gguf --suite decode,prefill,batch --json figures.json\n"
      "  sluice bench -m model.gguf --suite context,kv");
  command->callback([options, &action] { action = [options] { return run_bench(*options); }; });
}

}  // namespace sluice::app
