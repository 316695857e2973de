// Runs many streams through one engine for a while and checks what it promises:
//
//   every listener that stays gets exactly one terminal event, with no gap before it,
//   nobody's tokens or text are ever another's, whatever happens to neighbours and backend,
//   sessions, sequences and blocks return to 0, and handlers are destroyed,
//   memory does not grow: the slope of the second half stays under a bound.
//
//   sluice_soak --seconds 120 --streams 1000            a scripted backend that breaks now and then
//   sluice_soak --seconds 120 --model FILE.gguf         a real one
//   sluice_soak --seconds 120 --sockets 1               through a server, with WebSocket clients
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
#include "tests/soak/socket_crowd.hpp"
#include "tests/soak/stage.hpp"
#include "web/server.hpp"

namespace {

using namespace sluice;
using namespace sluice::soak;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenTurns{2};
constexpr std::chrono::seconds kDrainTime{90};

template <class Turn>
void run_for(const Options& options, const Stage& stage, MemoryWatch& memory, Turn turn) {
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
    turn();
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

template <class Handlers>
void expect_nothing_left(const Engine& engine, Handlers handlers_alive, Faults& faults) {
  const bool empty = within(std::chrono::seconds(45), [&] {
    const EngineStats stats = engine.stats();
    return stats.sessions == 0 && stats.kv.used == 0 && stats.kv.sequences == 0 &&
           stats.scheduler.running == 0 && stats.scheduler.waiting == 0 && handlers_alive() == 0;
  });
  const EngineStats stats = engine.stats();
  fmt::print(
      "left behind   sessions {}, sequences {}, blocks {}, running {}, waiting {}, "
      "handlers {}\n",
      stats.sessions, stats.kv.sequences, stats.kv.used, stats.scheduler.running,
      stats.scheduler.waiting, handlers_alive());
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

template <class AnyCrowd>
void report(const Options& options, const EngineStats& stats, const AnyCrowd& crowd) {
  fmt::print("streams       {} started, {} at a time; the slowest took {:.1f} s\n", crowd.started(),
             options.streams, crowd.slowest_seconds());
  print_counts("ended as", crowd.outcomes());
  print_counts("disturbed by", crowd.deeds());
  fmt::print(
      "engine        {} tokens in {} steps, {} preemptions, {} restarts, {} positions from the "
      "cache\n",
      stats.scheduler.generated_tokens, stats.scheduler.steps, stats.scheduler.preemptions,
      stats.executor_restarts, stats.kv.prefix_hits_positions);
}

void run_handlers(const Options& options, const Stage& stage, Faults& faults) {
  auto engine = std::make_unique<Engine>(stage.prepared);
  Crowd crowd(*engine, stage.crowd, faults, options.seed);
  MemoryWatch memory;
  run_for(options, stage, memory, [&] { crowd.turn(); });
  if (!within(kDrainTime, [&] { return crowd.drain(); })) {
    faults.report("streams without their end after the last disturbance");
  }
  report(options, engine->stats(), crowd);
  expect_nothing_left(
      *engine, [&] { return crowd.handlers_alive(); }, faults);
  expect_flat(memory, options.bound_mib, faults);

  // Once more, and the engine goes in the middle of it.
  crowd.fill();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  engine.reset();
  crowd.expect_all_ended();
  if (crowd.handlers_alive() != 0) faults.report("handlers outlive the engine");
}

void run_sockets(const Options& options, const Stage& stage, Faults& faults) {
  Engine engine(stage.prepared);
  web::ServerOptions settings;
  settings.port = 0;
  settings.limits.max_unwatched_streams =
      100000;  // those that have ended count until keep_ms is over
  web::Server server(engine, settings);
  server.start();
  SocketCrowd crowd(server.port(), stage.crowd, faults, options.seed);
  MemoryWatch memory;
  run_for(options, stage, memory, [] {});
  if (!within(kDrainTime, [&] { return crowd.drain(); })) {
    faults.report("streams without their end after the last disturbance");
  }
  crowd.stop();
  report(options, engine.stats(), crowd);
  // Streams that were left for good end when nobody has come back for them.
  expect_nothing_left(
      engine, [] { return 0; }, faults);
  expect_flat(memory, options.bound_mib, faults);
  server.stop(std::chrono::seconds(1));
}

bool run(const Options& options) {
  const Stage stage = make_stage(options);
  Faults faults;
  if (options.sockets) {
    run_sockets(options, stage, faults);
  } else {
    run_handlers(options, stage, faults);
  }
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
    if (name == "--sockets") options.sockets = std::atoi(value) != 0;
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
