#include "engine/schedule/engine_loop.hpp"

#include <catch2/catch.hpp>

#include "engine/backend/scripted_backend.hpp"
#include "engine/base/error.hpp"
#include "tests/engine/schedule/rig.hpp"

namespace sluice::test {
namespace {

struct Engine {
  explicit Engine(std::int32_t num_blocks, SchedulerOptions options = {})
      : scheduler(options),
        kv({.num_blocks = num_blocks}),
        backend(make_scripted_backend({.next_token = script, .steps_until_fatal = fatal})),
        loop(*backend, scheduler, kv) {
    backend->allocate_pool({num_blocks, kv.block_size()});
  }
  std::shared_ptr<std::atomic<int>> fatal = std::make_shared<std::atomic<int>>(-1);
  Scheduler scheduler;
  KvManager kv;
  std::unique_ptr<Backend> backend;
  EngineLoop loop;
};

std::vector<TokenId> ids(const std::vector<SampledToken>& tokens) {
  std::vector<TokenId> ids;
  for (const SampledToken& token : tokens) ids.push_back(token.id);
  return ids;
}

}  // namespace

TEST_CASE("the loop generates what the script says") {
  Engine engine(64, {.context_length = 300});
  SequenceRequest asked = request(1, prompt_of(1, 40), 50, 0);
  CHECK(ids(engine.loop.generate(asked)) == uncontended(asked, 300));
  asked = request(2, prompt_of(4, 10), 250, 0);
  asked.end_tokens = {kEndToken};
  CHECK(ids(engine.loop.generate(asked)) == uncontended(asked, 300));
  asked = request(3, prompt_of(5, 280), 250, 0);
  CHECK(ids(engine.loop.generate(asked)) == uncontended(asked, 300));
  asked.generated = ids(engine.loop.generate(asked));
  CHECK(engine.loop.generate(asked).empty());
  CHECK(engine.kv.stats().used == 0);
  CHECK_FALSE(engine.loop.run_once([](const Publication&) {}));
}

TEST_CASE("the second turn of a chat computes only what is new and says the same") {
  const auto chat = [](bool prefix_cache) {
    Scheduler scheduler({});
    KvManager kv({.num_blocks = 400, .prefix_cache = prefix_cache});
    const auto backend = make_scripted_backend({.next_token = script});
    backend->allocate_pool({400, 16});
    EngineLoop loop(*backend, scheduler, kv);
    SequenceRequest first = request(1, prompt_of(1, 2000), 100);
    std::vector<TokenId> tokens = first.prompt;
    std::vector<TokenId> said = ids(loop.generate(first));
    tokens.insert(tokens.end(), said.begin(), said.end());
    const std::vector<TokenId> question = prompt_of(2, 40);
    tokens.insert(tokens.end(), question.begin(), question.end());
    const std::uint64_t before = scheduler.stats().prompt_tokens;
    const std::vector<TokenId> answer = ids(loop.generate(request(2, tokens, 50)));
    CHECK(kv.stats().used == 0);
    return std::tuple(answer, scheduler.stats().prompt_tokens - before, tokens.size());
  };
  const auto [hot, hot_computed, history] = chat(true);
  const auto [cold, cold_computed, same_history] = chat(false);
  CHECK(hot == cold);
  CHECK(cold_computed == same_history);
  CHECK(hot_computed * 100 < history * 5);
}

TEST_CASE("what an aborted prefill has computed is found again") {
  Engine engine(64, {.prefill_chunk = 64});
  engine.scheduler.submit(request(1, prompt_of(1, 300), 5), Scheduler::Clock::now());
  for (int i = 0; i < 3; ++i) engine.loop.run_once([](const Publication&) {});
  engine.scheduler.remove(1);
  engine.kv.release(1);
  CHECK(engine.kv.stats().used == 0);
  const std::uint64_t before = engine.scheduler.stats().prompt_tokens;
  CHECK(before == 192);
  engine.loop.generate(request(2, prompt_of(1, 300), 5));
  CHECK(engine.scheduler.stats().prompt_tokens - before == 300 - 192);
}

TEST_CASE("the loop says why it can not generate") {
  Engine engine(4, {.context_length = 1000});
  CHECK_THROWS_WITH(engine.loop.generate(request(1, {}, 5)), Catch::Contains("no tokens"));
  CHECK_THROWS_WITH(engine.loop.generate(request(1, prompt_of(1, 65), 5)),
                    Catch::Contains("whole pool"));
  *engine.fatal = 3;
  CHECK_THROWS_WITH(engine.loop.generate(request(1, prompt_of(1, 10), 50)),
                    Catch::Contains("can't go on"));
  CHECK(engine.kv.stats().used == 0);
  CHECK(engine.scheduler.all().empty());
  // Blocks that a paused sequence holds.
  engine.scheduler.submit(request(7, prompt_of(7, 60), 50, 1), Scheduler::Clock::now());
  while (engine.loop.run_once([](const Publication&) {})) {
  }
  CHECK_THROWS_WITH(engine.loop.generate(request(8, prompt_of(8, 20), 50)),
                    Catch::Contains("hold the KV blocks"));
}

}  // namespace sluice::test
