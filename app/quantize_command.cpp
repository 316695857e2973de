// sluice quantize: any model that Sluice reads as a GGUF file of other weight types.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "app/commands.hpp"
#include "app/quantize_cost.hpp"
#include "engine/base/error.hpp"
#include "engine/convert/quantize_model.hpp"
#include "engine/kv/memory_plan.hpp"

namespace sluice::app {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string input;
  std::string output;
  std::string type = "Q4_K_M";
  std::string text;
  int threads = 0;
  bool force = false;
};

/// A bar on stderr, drawn only for what takes more than a second, and only on a terminal.
class ProgressBar {
 public:
  void show(double done) {
    const auto now = Clock::now();
    const bool due =
        now - started_ > std::chrono::seconds(1) && now - drawn_ > std::chrono::milliseconds(100);
    if (!terminal_ || !due) return;
    drawn_ = now;
    constexpr int kWidth = 40;
    const int filled = static_cast<int>(done * kWidth);
    const double spent = std::chrono::duration<double>(now - started_).count();
    const double left = done > 0 ? spent * (1 - done) / done : 0;
    fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {:3.0f} %, {:.0f} s left  ", "", filled, "",
               kWidth - filled, 100 * done, left);
    std::fflush(stderr);
  }
  ~ProgressBar() {
    if (drawn_ != Clock::time_point{}) fmt::print(stderr, "\r{:70}\r", "");
  }
  ProgressBar() = default;
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

 private:
  Clock::time_point started_ = Clock::now();
  Clock::time_point drawn_{};
  bool terminal_ = ::isatty(STDERR_FILENO) != 0;
};

std::string recipe_list() {
  std::string list = "Types:\n";
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    list += fmt::format("  {:<18} {}\n", recipe.name, recipe.summary);
  }
  return list;
}

const QuantizeRecipe& find_recipe(const std::string& name) {
  if (const QuantizeRecipe* recipe = find_quantize_recipe(name)) return *recipe;
  std::string names;
  for (const QuantizeRecipe& recipe : quantize_recipes()) {
    names += (names.empty() ? "" : ", ") + std::string(recipe.name);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("There is no type \"{}\"; give one of {}.", name, names));
}

void check_output(const Options& options, const ModelSource& source) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path output = options.output;
  if (!fs::exists(output, ignored)) return;
  if (fs::is_directory(output, ignored)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is a folder; give the name of a file to write.", options.output));
  }
  if (fs::equivalent(output, source.path(), ignored) ||
      fs::equivalent(output, options.input, ignored)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is the model that is read; give another name.", options.output));
  }
  if (!options.force) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} exists already; give another name, or --force to replace it.",
                            options.output));
  }
}

void check_space(const Options& options, std::uint64_t needed) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const fs::path folder = fs::absolute(options.output, failure).parent_path();
  const fs::space_info space = fs::space(folder, failure);
  if (failure || space.available >= needed) return;
  throw Error(ErrorCode::kIo,
              fmt::format("{} needs {}, but {} has only {} left.", options.output,
                          format_bytes(needed), folder.string(), format_bytes(space.available)));
}

void print_types(const QuantizePlan& plan) {
  std::map<std::string_view, std::pair<std::size_t, std::uint64_t>> by_type;
  for (const OutputTensor& tensor : plan.tensors) {
    auto& [count, bytes] = by_type[traits(tensor.info.type).name];
    ++count;
    bytes += tensor.info.bytes();
  }
  for (const auto& [type, sum] : by_type) {
    fmt::print("  {:<7} {:>10} in {} tensors\n", type, format_bytes(sum.second), sum.first);
  }
}

int quantize(const Options& options) {
  const QuantizeRecipe& recipe = find_recipe(options.type);
  const auto source = open_model(options.input);
  check_output(options, *source);
  const QuantizePlan plan = plan_quantize(*source, recipe);
  check_space(options, plan.file_bytes);
  for (const std::string& note : plan.notes) fmt::print(stderr, "note: {}\n", note);

  const auto started = Clock::now();
  {
    const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
    kernels::ThreadPool pool(options.threads > 0 ? options.threads : static_cast<int>(cores));
    ProgressBar bar;
    write_quantized(*source, plan, options.output, pool, [&](double done) { bar.show(done); });
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  fmt::print("{}: {} of weights, {}\n", source->path().string(), format_bytes(plan.source_bytes),
             source->format());
  fmt::print("{}: {}, {:.0f} % of it, written in {:.1f} s\n", options.output,
             format_bytes(plan.file_bytes),
             100.0 * static_cast<double>(plan.file_bytes) /
                 static_cast<double>(std::max<std::uint64_t>(1, plan.source_bytes)),
             seconds);
  print_types(plan);
  if (!options.text.empty()) {
    std::fflush(stdout);
    print_quantize_cost(source, open_model(options.output), options.text, options.threads);
  }
  return 0;
}

}  // namespace

void add_quantize_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "quantize", "Write a model as a GGUF file with smaller (or other) weights");
  command->add_option("model", options->input, "GGUF file or Hugging Face folder")->required();
  command->add_option("output", options->output, "The .gguf file to write")->required();
  command->add_option("-t,--type", options->type, "Type of the weights, see below")
      ->capture_default_str();
  command
      ->add_option("--perplexity", options->text,
                   "A text file: also measure how much worse the new model predicts it")
      ->check(CLI::ExistingFile);
  command->add_option("--threads", options->threads, "Threads; 0: one for each core")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024));
  command->add_flag("--force", options->force, "Replace the output if it exists");
  command->footer(recipe_list() +
                  "\nNorms, biases and routers stay in F32. The file is written under a temporary "
                  "name and\nappears when it is complete.\n\n"
                  "Examples:\n"
                  "  sluice quantize Qwen3-0.6B/ qwen3-q4.gguf --type Q4_K_M\n"
                  "  sluice quantize model-f16.gguf model-q8.gguf --type q8-full-embedding\n"
                  "  sluice quantize model-f16.gguf small.gguf --type Q4_0 --perplexity text.txt");
  command->callback([options, &action] { action = [options] { return quantize(*options); }; });
}

}  // namespace sluice::app
