// sluice plan: what a model would take, before anything is taken.
#include <cstdio>
#include <memory>
#include <string>

#include "actors/engine.hpp"
#include "app/commands.hpp"
#include "app/engine_options.hpp"
#include "engine/base/error.hpp"
#include "engine/kv/memory_plan.hpp"
#include "engine/kv/model_shape.hpp"

namespace sluice::app {
namespace {

struct Options {
  EngineOptions engine;
  std::string shape;
  std::string weight_type = "q8_0";
  bool json = false;
};

struct Planned {
  ModelConfig config;
  MemoryPlan plan;
};

/// From a line such as "layers=32,hidden=4096,heads=32", without a file.
Planned plan_shape(const Options& options) {
  EngineConfig engine = options.engine.plan_settings();
  const auto type = dtype_from_name(options.weight_type);
  if (!type) {
    throw Error(ErrorCode::kInvalidArgument,
                "--weight-type does not know \"" + options.weight_type + "\".");
  }
  ModelConfig config = with_budget(parse_shape(options.shape), engine.plan.budget);
  MemoryPlan plan = make_plan(config, estimate_weights_bytes(config, *type), engine.plan);
  return {std::move(config), plan};
}

Planned plan_file(const Options& options) {
  PreparedEngine prepared = prepare_engine(options.engine.finish());
  return {std::move(prepared.model_config), prepared.plan};
}

int plan(const Options& options) {
  const Planned planned = options.shape.empty() ? plan_file(options) : plan_shape(options);
  const std::string text = options.json ? plan_json(planned.plan, planned.config) + "\n"
                                        : plan_table(planned.plan, planned.config);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

void add_plan_command(CLI::App& program, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand(
      "plan", "Show how much memory a model takes and how many conversations fit");
  options->engine.add_to(*command, EngineUse::kPlanOnly, true);
  command
      ->add_option("--shape", options->shape,
                   "Plan without a file: layers=32,hidden=4096,heads=32 and optionally kv-heads, "
                   "head-dim, ffn, vocab, context, tied, window, full-every")
      ->excludes("--model");
  command
      ->add_option("--weight-type", options->weight_type, "With --shape: the type of the weights")
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print the plan as JSON, all sizes in bytes");
  command->footer(
      "Nothing is loaded or allocated.\n\nExamples:\n"
      "  sluice plan model.gguf\n"
      "  sluice plan model.gguf --context 8192 --sequences 4 --memory 16GiB\n"
      "  sluice plan --shape layers=32,hidden=4096,heads=32 --weight-type f16 --memory 40GiB");
  command->callback([options, &action] { action = [options] { return plan(*options); }; });
}

}  // namespace sluice::app
