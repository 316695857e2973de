// The options that every command with an engine shares, and how they become an EngineConfig.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "actors/engine.hpp"
#include "app/kv_options.hpp"

namespace sluice::app {

/// Which of the shared options a command offers.
enum class EngineUse {
  kPlanOnly,  ///< model and memory
  kSingle,    ///< one stream at a time: also threads
  kService,   ///< many streams: also queue and batch
};

struct EngineOptions {
  EngineConfig config;
  KvOptions kv;
  std::string memory;  ///< e.g. "8GiB"; empty: what is available
  std::string preempt = "recompute";
  std::string swap_space;  ///< e.g. "2GiB"
  bool warm_up = true;     ///< for services
  std::string log_level = "info";
  std::string device = "cpu";  ///< until the CUDA backend has been measured on devices

  /// Adds the options to a command, in groups for --help. `this` must outlive the parsing.
  void add_to(CLI::App& command, EngineUse use, bool model_is_positional);

  /// The checked configuration. Throws Error(kInvalidArgument), Error(kNotFound) without a model.
  EngineConfig finish() const;
  /// The same without asking for a model.
  EngineConfig plan_settings() const;

 private:
  void add_device_options(CLI::App& command, const std::string& group);
  void add_swap_options(CLI::App& command, const std::string& group);
};

/// "8GiB", "512M", "1.5g", "4096" (bytes) to bytes; K, M, G, T are powers of 1024.
/// Throws Error(kInvalidArgument), naming `option`.
std::size_t parse_bytes(std::string_view text, std::string_view option);

/// The bundled model, looked for beside the program and above it; empty when it is not there.
std::filesystem::path bundled_model();

/// Sampling options shared by `chat` and `generate`.
struct SamplingOptions {
  SamplingParams params;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  std::optional<Position> max_tokens;
  Position min_tokens = 0;
  bool ignore_eos = false;

  void add_to(CLI::App& command);
  /// Puts everything into a request.
  void apply(GenerateRequest& request) const;
};

}  // namespace sluice::app
