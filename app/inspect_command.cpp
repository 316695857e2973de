// sluice inspect: what is in a model file, and what this build would do with it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/engine.hpp"
#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "engine/base/error.hpp"
#include "kernels/cpu/cpu_info.hpp"
#include "kernels/cuda/device_info.hpp"

namespace sluice::app {
namespace {

void row(std::string_view label, const std::string& value) {
  fmt::print("  {:<18} {}\n", label, value);
}

std::string count_text(double count) {
  if (count >= 1e9) return fmt::format("{:.2f} B", count / 1e9);
  if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
  return fmt::format("{:.0f} K", count / 1e3);
}

void print_weights(const ModelSource& source) {
  struct Sum {
    std::size_t tensors = 0;
    std::size_t bytes = 0;
    double elements = 0;
  };
  std::map<std::string_view, Sum> by_type;
  Sum all;
  for (const TensorView& tensor : source.tensors()) {
    for (Sum* sum : {&by_type[traits(tensor.type).name], &all}) {
      sum->tensors += 1;
      sum->bytes += tensor.data.size();
      sum->elements += static_cast<double>(tensor.elements());
    }
  }
  row("parameters", count_text(all.elements));
  row("weights", fmt::format("{} in {} tensors", format_bytes(all.bytes), all.tensors));
  for (const auto& [type, sum] : by_type) {
    row("", fmt::format("{:<5} {:>10} in {} tensors", type, format_bytes(sum.bytes), sum.tensors));
  }
}

void print_positions(const ModelConfig& config) {
  if (config.has_encoder()) {
    row("input", fmt::format("at most {} tokens, encoded in one step; the decoder starts with {}",
                             config.encoder.max_input, config.encoder.decoder_start));
    row("positions",
        fmt::format("relative, {} buckets up to a distance of {}",
                    config.relative_positions.buckets, config.relative_positions.max_distance));
    return;
  }
  row("rope",
      fmt::format("base {}, {} of {} dimensions, pairs {}", config.ropes[0].base, config.rope_dims,
                  config.head_dim,
                  config.options.rope_layout == RopeLayout::kNeighbours ? "(0,1)" : "(0,n/2)"));
}

void print_shape(const ModelConfig& config) {
  row("architecture", config.architecture);
  row("layers", config.has_encoder() ? fmt::format("{} in the encoder, {} in the decoder",
                                                   config.encoder.num_layers, config.num_layers)
                                     : std::to_string(config.num_layers));
  row("hidden", fmt::format("{} (feed-forward {})", config.hidden_size, config.ffn_size));
  row("heads",
      fmt::format("{} of {}, {} KV heads", config.num_heads, config.head_dim, config.num_kv_heads));
  row("context", fmt::format("{} positions", config.context_length));
  print_positions(config);
  row("embeddings", config.tied_embeddings ? "tied to the LM head" : "separate LM head");
}

void print_metadata(const ModelSource& source) {
  struct Print {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(std::uint64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(const std::string& v) const {
      constexpr std::size_t kShown = 200;
      std::string shown;
      for (const char c : v.substr(0, kShown))
        shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
      return v.size() > kShown ? shown + fmt::format("... ({} bytes)", v.size()) : shown;
    }
    std::string operator()(const std::vector<bool>& v) const {
      return fmt::format("[{} flags]", v.size());
    }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return fmt::format("[{} integers]", v.size());
    }
    std::string operator()(const std::vector<double>& v) const {
      return fmt::format("[{} numbers]", v.size());
    }
    std::string operator()(const std::vector<std::string>& v) const {
      return fmt::format("[{} strings]", v.size());
    }
  };
  fmt::print("\nMetadata\n");
  for (const auto& [key, value] : source.metadata()) {
    fmt::print("  {} = {}\n", key, std::visit(Print{}, value));
  }
}

void print_tensors(const ModelSource& source) {
  fmt::print("\nTensors\n");
  for (const TensorView& tensor : source.tensors()) {
    std::string shape;
    for (const std::int64_t dimension : tensor.shape) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(dimension);
    }
    fmt::print("  {:<40} {:<5} {}\n", tensor.name, traits(tensor.type).name, shape);
  }
}

void print_text_parts(const PreparedEngine& prepared) {
  row("tokenizer", prepared.tokenizer->description());
  row("chat template", prepared.chat_template->description());
  std::string ends;
  for (const TokenId id : prepared.tokenizer->end_tokens()) {
    ends +=
        fmt::format("{}{} ({})", ends.empty() ? "" : ", ", prepared.tokenizer->token_bytes(id), id);
  }
  row("end tokens", ends.empty() ? "none: answers end at their maximum length" : ends);
}

void print_devices() {
  row("CPU", fmt::format("{} kernels, {} physical cores", kernels::isa_name(kernels::best_isa()),
                         kernels::usable_physical_cores()));
  const kernels::CudaDevices cuda = kernels::cuda_devices();
  row("CUDA", cuda.devices.empty() ? cuda.why_none : "");
  for (const kernels::CudaDevice& device : cuda.devices) {
    row("",
        fmt::format("device {}: {}, compute {}.{}, {}", device.index, device.name,
                    device.compute_major, device.compute_minor, format_bytes(device.total_bytes)));
  }
}

void print_details(const ModelSource& source, bool metadata, bool tensors) {
  if (metadata) print_metadata(source);
  if (tensors) print_tensors(source);
}

int inspect(const EngineConfig& config, bool metadata, bool tensors) {
  const auto source = open_model(config.model);
  fmt::print("{}\n", source->path().string());
  row("format", source->format());
  print_weights(*source);
  std::optional<PreparedEngine> prepared;
  try {
    prepared = prepare_engine(config);
  } catch (const Error&) {
    // Fine as a file, but not for this build: what is in it is wanted all the more.
    print_details(*source, metadata, tensors);
    std::fflush(stdout);
    throw;
  }
  row("name", prepared->model_config.name);
  print_shape(prepared->model_config);
  print_text_parts(*prepared);
  print_devices();
  row("device", prepared->device_note);
  fmt::print("\n{}", plan_table(prepared->plan, prepared->model_config));
  print_details(*source, metadata, tensors);
  return 0;
}

}  // namespace

void add_inspect_command(CLI::App& program, Action& action) {
  struct Options {
    EngineOptions engine;
    bool metadata = false;
    bool tensors = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "inspect", "Show what is in a model file and what this build would do with it");
  options->engine.add_to(*command, EngineUse::kPlanOnly, true);
  command->add_flag("--metadata", options->metadata, "List every metadata key");
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->footer(
      "Examples:\n"
      "  sluice inspect model.gguf --tensors\n"
      "  sluice inspect Qwen3-0.6B/ --metadata");
  command->callback([options, &action] {
    action = [options] {
      return inspect(options->engine.finish(), options->metadata, options->tensors);
    };
  });
}

}  // namespace sluice::app
