// Every way into the engine says the same bytes: each other's, and those of the raw loop.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "bench/ways/ways.hpp"
#include "embed/engine_core.hpp"
#include "tests/support/paths.hpp"

namespace {

using namespace sluice;

/// Prompts of many lengths, greedy and sampled, some that end early.
std::vector<v0::Request> sixty_four() {
  std::vector<v0::Request> requests(64);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    v0::Request& request = requests[i];
    std::string prompt = "Once upon a time";
    for (std::size_t word = 0; word < i % 23; ++word) prompt += " a little dog";
    request.input = prompt + " and number " + std::to_string(i);
    request.sampling.temperature = i % 3 == 0 ? 0.0F : 0.9F;
    request.seed = 1000 + i;
    request.stop.max_new_tokens = static_cast<std::int32_t>(8 + i % 40);
  }
  return requests;
}

TEST_CASE("64 streams say the same by every way into the engine") {
  v0::Config config;
  config.model = test::source_dir() / "models/demo-q8_0.gguf";
  config.context = 256;
  config.sequences = 24;  // fewer than streams: some wait, and some may be preempted
  const std::vector<v0::Request> requests = sixty_four();
  const bench::WayResult loop = bench::make_loop_way(embed::prepare(config))->run(requests);
  REQUIRE(loop.texts.size() == 64);
  CHECK(loop.tokens > 64 * 8);
  for (const auto make : {bench::make_callback_way, bench::make_asio_way, bench::make_caf_way}) {
    const auto way = make(embed::prepare(config));
    const bench::WayResult result = way->run(requests);
    INFO(way->name());
    CHECK(result.tokens == loop.tokens);
    CHECK(result.texts == loop.texts);
  }
}

}  // namespace
