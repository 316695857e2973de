#include "app/engine_options.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "app/tokenizer_options.hpp"
#include "engine/base/error.hpp"

namespace sluice::app {
void EngineOptions::add_to(CLI::App& command, EngineUse use, bool model_is_positional) {
  const std::string model_help =
      "Model: a GGUF file or a Hugging Face folder. Default: the bundled demo model";
  if (model_is_positional) {
    command.add_option("MODEL,-m,--model", config.model, model_help);
  } else {
    command.add_option("-m,--model", config.model, model_help);
  }

  add_unknown_pre_tokenizer_flag(command, config.tokenizer);

  const std::string memory_group = "Memory";
  command
      .add_option("--context", config.plan.context,
                  "Positions (prompt and answer) of one sequence. Default: the model's own")
      ->check(CLI::Range(1, 1 << 24))
      ->group(memory_group);
  command
      .add_option("--sequences", config.plan.sequences,
                  "Sequences of that length at the same time. Default: as many as fit, at most 16")
      ->check(CLI::Range(1, 1 << 16))
      ->group(memory_group);
  command
      .add_option("--memory", memory,
                  "Memory for everything, e.g. 8GiB. Default: what the machine has available")
      ->group(memory_group);
  command.add_option("--headroom", config.plan.headroom, "Share of that memory left free")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9))
      ->group(memory_group);
  kv.add_to(command, memory_group);
  command.add_option("--block-size", config.plan.block_size, "Positions in a KV block")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024))
      ->group(memory_group);
  command
      .add_option("--token-budget", config.plan.max_batch_tokens,
                  "Tokens in one step, all sequences together")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->group(memory_group);
  if (use != EngineUse::kSingle) add_swap_options(command, memory_group);
  const std::string engine_group = "Engine";
  command
      .add_flag("--precise", config.precise,
                "Compute with activations in f32 instead of 8 bits: slower, a little more exact")
      ->group(engine_group);
  add_device_options(command, engine_group);
  if (use == EngineUse::kPlanOnly) return;

  command
      .add_option("--threads", config.threads, "Compute threads. Default: one per physical core")
      ->check(CLI::Range(1, 1024))
      ->group(engine_group);
  command
      .add_flag("!--no-prefix-cache", config.prefix_cache,
                "Do not reuse the KV of prompts with the same beginning")
      ->group(engine_group);
  command
      .add_option("--prefill-chunk", config.scheduler.prefill_chunk,
                  "Tokens of one prompt in a step")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->group(engine_group);
  command.add_option("--log-level", log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str()
      ->check(CLI::IsMember({"trace", "debug", "info", "warn", "error", "off"}))
      ->group(engine_group);
  if (use == EngineUse::kSingle) return;

  command
      .add_flag("!--no-warmup", warm_up,
                "Do not run the largest steps once before serving; the scratch memory in the plan "
                "is then an upper bound instead of measured")
      ->group(engine_group);
  command
      .add_option("--max-running", config.scheduler.max_running,
                  "Sequences that hold KV at the same time; more wait in the queue")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->group(engine_group);
  command
      .add_option("--max-queue", config.scheduler.max_waiting,
                  "Length of the queue; one more is refused")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 20))
      ->group(engine_group);
  command
      .add_option("--max-tokens-default", config.default_max_new_tokens,
                  "Longest answer where a request does not say")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24))
      ->group(engine_group);
  command
      .add_option("--state-dir", config.state_dir,
                  "Keep what was learned here (lengths of answers, for the default maximum)")
      ->group(engine_group);
  command
      .add_option("--credit", config.credit_window,
                  "Tokens of a stream on their way to its client at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096))
      ->group(engine_group);
}

void EngineOptions::add_device_options(CLI::App& command, const std::string& group) {
  command
      .add_option("--device", device,
                  "Where to compute. auto: on a CUDA device where there is one that can run the "
                  "model, else on the CPU, and why. The CUDA backend has not been run on a "
                  "device yet, so it is not the default")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->group(group);
  command
      .add_flag("--fast-prefill", config.fast_prefill,
                "On a CUDA device: prompts through cuBLAS. Faster; a stream that is computed again "
                "in other pieces may then differ in its last digits")
      ->group(group);
}

void EngineOptions::add_swap_options(CLI::App& command, const std::string& group) {
  command
      .add_option("--preempt", preempt,
                  "What becomes of a sequence whose blocks another needs. recompute: it is "
                  "computed again later. swap: its blocks go to the swap space and come back")
      ->capture_default_str()
      ->check(CLI::IsMember({"recompute", "swap"}))
      ->group(group);
  command
      .add_option("--swap-space", swap_space,
                  "Size of the swap space, e.g. 2GiB; what does not fit is computed again. "
                  "Default with --preempt swap: 1GiB")
      ->group(group);
  command
      .add_option("--swap-file", config.plan.swap_file,
                  "Keep the swap space in a new file here instead of in main memory")
      ->group(group);
}

EngineConfig EngineOptions::finish() const {
  EngineConfig result = plan_settings();
  if (result.model.empty()) {
    result.model = bundled_model();
    if (result.model.empty()) {
      throw Error(ErrorCode::kNotFound,
                  "No model given and the bundled one was not found beside the program; "
                  "name a GGUF file with --model.");
    }
  }
  return result;
}

EngineConfig EngineOptions::plan_settings() const {
  EngineConfig result = config;
  result.device = device == "cuda"  ? DeviceChoice::kCuda
                  : device == "cpu" ? DeviceChoice::kCpu
                                    : DeviceChoice::kAuto;
  KvTypes types = kv.finish();
  result.plan.kv_type_k = types.type_k;
  result.plan.kv_type_v = types.type_v;
  result.plan.kv_layers = std::move(types.layers);
  result.plan.budget = kv.finish_budget();
  result.plan.prefill_chunk = config.scheduler.prefill_chunk;  // for plans without an engine
  if (preempt == "swap") {
    result.plan.swap_bytes = parse_bytes(swap_space.empty() ? "1GiB" : swap_space, "--swap-space");
  } else if (!swap_space.empty() || !result.plan.swap_file.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--swap-space and --swap-file do nothing without --preempt swap.");
  }
  if (!memory.empty()) result.plan.memory_limit_bytes = parse_bytes(memory, "--memory");
  return result;
}

std::size_t parse_bytes(std::string_view text, std::string_view option) {
  const auto fail = [&]() -> Error {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("{} needs a size such as 8GiB, 512M or a number of bytes, not \"{}\".",
                             option, text));
  };
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number <= 0) throw fail();
  std::string unit;
  for (const char c :
       std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end))) {
    if (c != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with('b')) {
    unit.resize(unit.size() - 1);
  }
  double factor = 1.0;
  if (unit == "k") {
    factor = 1024.0;
  } else if (unit == "m") {
    factor = 1024.0 * 1024.0;
  } else if (unit == "g") {
    factor = 1024.0 * 1024.0 * 1024.0;
  } else if (unit == "t") {
    factor = 1024.0 * 1024.0 * 1024.0 * 1024.0;
  } else if (!unit.empty()) {
    throw fail();
  }
  const double bytes = number * factor;
  if (bytes < 1.0 || bytes > 9.0e18) throw fail();
  return static_cast<std::size_t>(bytes);
}

std::filesystem::path bundled_model() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  // In a checkout the program lies some folders below the top; installed, in PREFIX/bin.
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    for (const char* place : {"models/demo-q8_0.gguf", "share/sluice/models/demo-q8_0.gguf"}) {
      fs::path candidate = folder / place;
      if (fs::is_regular_file(candidate, error)) return candidate;
    }
  }
  return {};
}

void SamplingOptions::add_to(CLI::App& command) {
  const std::string group = "Sampling";
  command.add_option("-n,--max-tokens", max_tokens, "Longest answer in tokens")
      ->check(CLI::Range(1, 1 << 24))
      ->group(group);
  command.add_option("--min-tokens", min_tokens, "Nothing ends the answer before so many tokens")
      ->check(CLI::Range(0, 1 << 24))
      ->group(group);
  command
      .add_option("-t,--temperature", params.temperature, "0 is greedy: always the likeliest token")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 10.0))
      ->group(group);
  command.add_option("--top-k", params.top_k, "Keep the k likeliest tokens; 0 keeps all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24))
      ->group(group);
  command.add_option("--top-p", params.top_p, "Keep the smallest set with this much probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command
      .add_option("--min-p", params.min_p, "Drop tokens below this share of the top probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command.add_option("--repetition-penalty", params.repetition_penalty, "1 is off")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 10.0))
      ->group(group);
  command.add_option("--presence-penalty", params.presence_penalty, "0 is off")
      ->capture_default_str()
      ->check(CLI::Range(-10.0, 10.0))
      ->group(group);
  command.add_option("--frequency-penalty", params.frequency_penalty, "0 is off")
      ->capture_default_str()
      ->check(CLI::Range(-10.0, 10.0))
      ->group(group);
  command.add_option("-s,--seed", seed, "Same seed, same answer. Default: random")->group(group);
  command.add_option("--stop", stop, "End before this text; may be given several times")
      ->group(group);
  command.add_flag("--ignore-eos", ignore_eos, "Do not end at the model's end tokens")
      ->group(group);
}

void SamplingOptions::apply(GenerateRequest& request) const {
  request.sampling = params;
  request.seed = seed;
  request.stop.max_new_tokens = max_tokens;
  request.stop.min_new_tokens = min_tokens;
  request.stop.ignore_end_tokens = ignore_eos;
  for (const std::string& text : stop) request.stop.stop_strings.push_back({.text = text});
}

}  // namespace sluice::app
