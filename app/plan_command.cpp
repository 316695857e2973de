// sluice plan: what a model would take, before anything is taken.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "actors/engine.hpp"
#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "engine/base/json_writer.hpp"
#include "engine/kv/memory_plan.hpp"

namespace sluice::app {
namespace {

std::string_view name(PlanLimit limit) {
  switch (limit) {
    case PlanLimit::kRequest:
      return "request";
    case PlanLimit::kMemory:
      return "memory";
    case PlanLimit::kModelContext:
      return "model_context";
  }
  return "request";
}

void print_json(const MemoryPlan& plan, const ModelConfig& config) {
  JsonWriter json;
  json.begin_object()
      .field("model", config.name)
      .field("architecture", config.architecture)
      .field("limit_bytes", plan.limit_bytes)
      .field("headroom_bytes", plan.headroom_bytes)
      .field("weights_bytes", plan.weights_bytes)
      .field("scratch_bytes", plan.scratch_bytes)
      .field("kv_bytes_per_token_layer", plan.kv_bytes_per_token_layer)
      .field("kv_bytes_per_token", plan.kv_bytes_per_token)
      .field("kv_pool_bytes", plan.kv_pool_bytes)
      .field("total_bytes", plan.total_bytes())
      .field("block_size", plan.block_size)
      .field("num_blocks", plan.num_blocks)
      .field("context", plan.context)
      .field("sequences", plan.sequences)
      .field("max_context_one_sequence", plan.max_context_one_sequence)
      .field("binding", name(plan.binding))
      .end_object();
  std::printf("%s\n", json.str().c_str());
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  struct Options {
    EngineOptions engine;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "plan", "Show how much memory a model takes and how many conversations fit");
  options->engine.add_to(*command, EngineUse::kPlanOnly, true);
  command->add_flag("--json", options->json, "Print the plan as JSON");
  command->footer(
      "Nothing is loaded or allocated.\n\nExamples:\n"
      "  sluice plan model.gguf\n"
      "  sluice plan model.gguf --context 8192 --sequences 4 --memory 16GiB");
  command->callback([options, &action] {
    action = [options] {
      const PreparedEngine prepared = prepare_engine(options->engine.finish());
      if (options->json) {
        print_json(prepared.plan, prepared.model_config);
      } else {
        std::fputs(plan_table(prepared.plan, prepared.model_config).c_str(), stdout);
      }
      return 0;
    };
  });
}

}  // namespace sluice::app
