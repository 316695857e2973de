// Runs many streams through one engine for a while and checks what it promises:
//
//   every listener that stays gets exactly one terminal event, with no gap before it,
//   nobody's tokens or text are ever another's, whatever happens to neighbours and backend,
//   sessions, sequences and blocks return to 0, and handlers are destroyed,
//   memory does not grow: the slope of the second half stays under a bound.
//
//   sluice_soak --seconds 120 --streams 1000            a scripted backend that breaks now and then
//   sluice_soak --seconds 120 --model FILE.gguf         a real one
//
// Ends with 0 when every promise was kept.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "actors/engine.hpp"
#include "tests/soak/crowd.hpp"
#include "tests/soak/memory_watch.hpp"
#include "tests/support/scripted_engine.hpp"

namespace {

using namespace sluice;
using namespace sluice::soak;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenTurns{2};
constexpr std::chrono::seconds kDrainTime{90};
constexpr Position kScriptContext = 320;
constexpr Position kModelOutput = 128;

struct Options {
  int seconds = 120;
  std::size_t streams = 1000;
  std::uint64_t seed = 1;
  int crash_every = 10;    ///< seconds between failures of the scripted backend; 0: none
  double bound_mib = 4.0;  ///< growth of memory in the second half
  std::string model;
};

/// What the engine runs on, and where the prompts come from.
struct Stage {
  PreparedEngine prepared;
  CrowdOptions crowd;
  std::shared_ptr<std::atomic<int>> steps_until_fatal;
};

SchedulerOptions roomy_queue(const Options& options) {
  SchedulerOptions scheduler;
  scheduler.max_waiting = static_cast<std::int32_t>(options.streams * 2);
  return scheduler;
}

Reference reference_of(const test::Script& script, const std::string& prompt, Position longest) {
  const test::ByteTokenizer tokenizer;
  std::vector<TokenId> tokens = tokenizer.encode(prompt, {.add_special = true});
  Reference reference;
  for (Position i = 0; i < longest; ++i) {
    const TokenId next = script(tokens);
    tokens.push_back(next);
    reference.ids.push_back(next);
    if (!tokenizer.is_special(next)) reference.text += tokenizer.token_bytes(next);
  }
  return reference;
}

Stage scripted_stage(const Options& options) {
  Stage stage;
  stage.steps_until_fatal = std::make_shared<std::atomic<int>>(-1);
  test::ScriptedEngineOptions scripted;
  scripted.next_token = test::ending_script(300);
  scripted.context = kScriptContext;
  scripted.block_size = 16;
  scripted.num_blocks = 400;  // less than 64 sequences need: some give way
  scripted.steps_until_fatal = stage.steps_until_fatal;
  scripted.config.scheduler = roomy_queue(options);
  scripted.config.restart.max_restarts = 1000000;
  scripted.config.heartbeat_interval = std::chrono::milliseconds(500);
  stage.prepared = test::scripted_engine(scripted);
  stage.crowd.stop_texts = {"ab", "zz", "the", " q", "x y", "mnop", "a", "never seen here"};
  stage.crowd.next_prompt = [script = scripted.next_token](Random& random) {
    Prompt prompt;
    // Half of them begin alike, for the prefix cache.
    if (random() % 2 == 0) prompt.text = "a beginning that many of the prompts have in common ";
    const std::size_t length = prompt.text.size() + 1 + random() % 60;
    while (prompt.text.size() < length) prompt.text += static_cast<char>('a' + random() % 26);
    prompt.longest = kScriptContext - static_cast<Position>(length) - 1;
    prompt.reference =
        std::make_shared<const Reference>(reference_of(script, prompt.text, prompt.longest));
    return prompt;
  };
  return stage;
}

/// The answer to a prompt by the engine itself while nobody else is there.
Reference reference_of(Engine& engine, const std::string& prompt) {
  struct Heard {
    Reference reference;
    std::atomic<bool> ended{false};
  };
  const auto heard = std::make_shared<Heard>();
  GenerateRequest request;
  request.input = prompt;
  request.sampling.temperature = 0.0F;
  request.stop.max_new_tokens = kModelOutput + 8;  // so that no code point is cut where it matters
  request.stop.ignore_end_tokens = true;
  (void)engine.generate(
      request,
      [heard](const Event& event) {
        if (const auto* token = std::get_if<TokenEvent>(&event)) {
          heard->reference.text += token->text;
          for (const TokenPiece& piece : token->pieces) heard->reference.ids.push_back(piece.id);
        }
        if (is_terminal(event)) heard->ended = true;
      },
      Delivery::kOnReturn);
  while (!heard->ended) std::this_thread::sleep_for(kBetweenTurns);
  return heard->reference;
}

Stage model_stage(const Options& options) {
  EngineConfig config;
  config.model = options.model;
  config.scheduler = roomy_queue(options);
  Stage stage;
  stage.prepared = prepare_engine(config);
  stage.crowd.any_temperature = false;
  stage.crowd.stop_texts = {"\n", " the", "was", "!", "He ", ". She", "never seen here"};
  auto prompts = std::make_shared<std::vector<Prompt>>();
  Engine engine(stage.prepared);
  for (const char* text : {"Once upon a time", "The little dog", "Lily and Tom went", "One day,",
                           "There was a big", "A cat sat", "Mum said", "In the park"}) {
    prompts->push_back(
        {text, kModelOutput, std::make_shared<const Reference>(reference_of(engine, text))});
  }
  stage.crowd.next_prompt = [prompts](Random& random) { return (*prompts)[random() % 8]; };
  return stage;
}

void run_for(const Options& options, const Stage& stage, Crowd& crowd, MemoryWatch& memory) {
  const auto begin = Clock::now();
  auto next_sample = begin;
  auto next_crash = begin + std::chrono::seconds(options.crash_every);
  for (;;) {
    const auto now = Clock::now();
    const std::chrono::duration<double> elapsed = now - begin;
    if (elapsed.count() >= options.seconds) return;
    if (now >= next_sample) {
      memory.sample(elapsed.count());
      next_sample += std::chrono::milliseconds(500);
    }
    if (stage.steps_until_fatal && options.crash_every > 0 && now >= next_crash) {
      *stage.steps_until_fatal = 3;
      next_crash += std::chrono::seconds(options.crash_every);
    }
    crowd.turn();
    std::this_thread::sleep_for(kBetweenTurns);
  }
}

template <class Condition>
bool within(std::chrono::seconds limit, Condition condition) {
  const auto deadline = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(kBetweenTurns);
  }
  return true;
}

void expect_nothing_left(const Engine& engine, const Crowd& crowd, Faults& faults) {
  const bool empty = within(std::chrono::seconds(20), [&] {
    const EngineStats stats = engine.stats();
    return stats.sessions == 0 && stats.kv.used == 0 && stats.kv.sequences == 0 &&
           stats.scheduler.running == 0 && stats.scheduler.waiting == 0 &&
           crowd.handlers_alive() == 0;
  });
  const EngineStats stats = engine.stats();
  fmt::print(
      "left behind   sessions {}, sequences {}, blocks {}, running {}, waiting {}, "
      "handlers {}\n",
      stats.sessions, stats.kv.sequences, stats.kv.used, stats.scheduler.running,
      stats.scheduler.waiting, crowd.handlers_alive());
  if (!empty) faults.report("something is left after the last stream");
}

void expect_flat(const MemoryWatch& memory, double bound_mib, Faults& faults) {
  const double growth_mib = memory.slope() * memory.half_seconds() / 1024.0;
  fmt::print(
      "memory        {:.1f} MiB in the middle, {:.1f} MiB at the end; slope {:+.1f} KiB/s, "
      "{:+.2f} MiB in {:.0f} s (bound {} MiB)\n",
      memory.middle_kib() / 1024.0, memory.last_kib() / 1024.0, memory.slope(), growth_mib,
      memory.half_seconds(), bound_mib);
  if (growth_mib > bound_mib) faults.report("memory grows");
}

void print_counts(const char* title, const std::map<std::string, std::uint64_t>& counts) {
  fmt::print("{:<14}", title);
  for (const auto& [what, count] : counts) fmt::print("{} {}  ", what, count);
  fmt::print("\n");
}

bool run(const Options& options) {
  Stage stage = options.model.empty() ? scripted_stage(options) : model_stage(options);
  stage.crowd.streams = options.streams;
  Faults faults;
  auto engine = std::make_unique<Engine>(stage.prepared);
  Crowd crowd(*engine, stage.crowd, faults, options.seed);
  MemoryWatch memory;

  run_for(options, stage, crowd, memory);
  if (!within(kDrainTime, [&] { return crowd.drain(); })) {
    faults.report("streams without their end after the last disturbance");
  }
  const EngineStats stats = engine->stats();
  fmt::print("streams       {} started, {} at a time; the slowest took {:.1f} s\n", crowd.started(),
             options.streams, crowd.slowest_seconds());
  print_counts("ended as", crowd.outcomes());
  print_counts("disturbed by", crowd.deeds());
  fmt::print(
      "engine        {} tokens in {} steps, {} preemptions, {} restarts, {} positions from the "
      "cache\n",
      stats.scheduler.generated_tokens, stats.scheduler.steps, stats.scheduler.preemptions,
      stats.executor_restarts, stats.kv.prefix_hits_positions);
  expect_nothing_left(*engine, crowd, faults);
  expect_flat(memory, options.bound_mib, faults);

  // Once more, and the engine goes in the middle of it.
  crowd.fill();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  engine.reset();
  crowd.expect_all_ended();
  if (crowd.handlers_alive() != 0) faults.report("handlers outlive the engine");
  fmt::print("faults        {}\n", faults.count());
  return faults.count() == 0;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--seconds") options.seconds = std::atoi(value);
    if (name == "--streams") options.streams = std::strtoull(value, nullptr, 10);
    if (name == "--seed") options.seed = std::strtoull(value, nullptr, 10);
    if (name == "--crash-every") options.crash_every = std::atoi(value);
    if (name == "--bound-mib") options.bound_mib = std::atof(value);
    if (name == "--model") options.model = value;
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv)) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "sluice_soak: {}\n", error.what());
    return 2;
  }
}
