// The warm-up: what it measures, what it leaves, and that streams are none the wiser.
#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "actors/engine.hpp"
#include "tests/support/shared_data.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

EngineConfig config_for(const std::filesystem::path& model) {
  EngineConfig config;
  config.model = model;
  config.threads = 2;
  config.plan.sequences = 3;
  config.plan.context = 120;
  config.plan.max_batch_tokens = 96;
  config.plan.memory_limit_bytes = std::size_t{1} << 30;
  return config;
}

std::string answer(PreparedEngine prepared) {
  Engine engine(std::move(prepared));
  GenerateRequest request;
  request.input = "Once upon a time";
  request.sampling.temperature = 0.0F;
  request.stop.max_new_tokens = 30;
  auto log = std::make_shared<StreamLog>();
  engine.generate(request, recorder(log), Delivery::kOnReturn);
  REQUIRE(log->wait_for_end());
  return log->text();
}

}  // namespace

TEST_CASE("a warm-up measures scratch and hands its backend to the engine", "[engine]") {
  const auto folder = shared_dir("models");
  if (!folder) return;
  const auto path = *folder / "stories260K.gguf";
  PreparedEngine prepared = prepare_engine(config_for(path));
  const MemoryPlan before = prepared.plan;
  const WarmUp warm = warm_up(prepared);
  CHECK(warm.scratch_bytes > 0);
  CHECK(prepared.plan.scratch_measured);
  CHECK(prepared.plan.scratch_bytes == warm.scratch_bytes);
  // The bound holds, and it is a close one.
  CHECK(warm.scratch_bytes <= before.scratch_bytes);
  CHECK(warm.scratch_bytes >= before.scratch_bytes / 2);
  CHECK(prepared.plan.context == before.context);
  CHECK(prepared.plan.sequences == before.sequences);
  CHECK(answer(prepared) == answer(prepare_engine(config_for(path))));
  // Its backend went to the first engine; a second one gets another.
  CHECK(answer(prepared) == answer(prepare_engine(config_for(path))));
}

TEST_CASE("a warm-up works with windows and a small budget", "[engine]") {
  const auto folder = shared_dir("models");
  if (!folder) return;
  EngineConfig config = config_for(*folder / "stories260K.gguf");
  config.plan.budget.layers = {{.positions = 40},
                               {.first_layer = 0, .last_layer = 0, .positions = 64}};
  config.scheduler.prefill_chunk = 32;
  PreparedEngine prepared = prepare_engine(config);
  CHECK(prepared.plan.groups.size() == 2);
  warm_up(prepared);
  CHECK(answer(prepared) == answer(prepare_engine(config)));
}
