// The whole machine under random orders of messages: supervisor, KV manager, scheduler,
// executor and sessions, one message at a time, with cancels, deaths, slow listeners, failures
// and a pool too small, the same for the same seed.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "actors/session_actor.hpp"
#include "actors/supervisor.hpp"
#include "tests/actors/alone.hpp"
#include "tests/actors/coordinated_system.hpp"
#include "tests/support/scripted_engine.hpp"
#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

struct OneStream {
  GenerateRequest request;
  std::string expected;
  std::shared_ptr<StreamLog> log = std::make_shared<StreamLog>();
  SessionRef session;
  StreamHandle handle;
  bool disturbed = false;  ///< cancelled, abandoned or killed by the test
  bool abandoned = false;
};

struct Machine : CoordinatedSystem {
  std::shared_ptr<StatsBoard> board = std::make_shared<StatsBoard>();
  std::shared_ptr<ServiceContext> context = std::make_shared<ServiceContext>();
  std::shared_ptr<std::atomic<int>> fatal = std::make_shared<std::atomic<int>>(-1);
  ScriptedEngineOptions options;
  SupervisorRef supervisor;
  std::vector<OneStream> streams;

  Machine() {
    options.next_token = ending_script(60);
    options.context = 96;
    options.num_blocks = 30;  // 120 positions
    options.steps_until_fatal = fatal;
    const PreparedEngine prepared = scripted_engine(options);
    context->model_name = "Scripted";
    context->tokenizer = prepared.tokenizer;
    context->chat_template = prepared.chat_template;
    context->context_length = options.context;
    context->end_tokens = union_of_end_tokens(*prepared.tokenizer, *prepared.chat_template);
    context->credit_window = 4;
    context->heartbeat_interval = std::chrono::milliseconds(0);

    SupervisorParts parts;
    parts.executor.make_backend = prepared.make_backend;
    parts.executor.pool = {options.num_blocks, options.block_size};
    parts.scheduler.context_length = options.context;
    parts.scheduler.token_budget = 24;
    parts.scheduler.prefill_chunk = 7;
    parts.scheduler.max_running = 6;
    // Idle listeners give way only in real time, which does not pass here.
    parts.scheduler.idle_preempt_after = std::chrono::milliseconds(0);
    parts.kv.num_blocks = options.num_blocks;
    parts.kv.block_size = options.block_size;
    parts.policy.max_restarts = 1000;
    parts.board = board;
    parts.detached_executor = false;
    supervisor = system().spawn<SupervisorActor>(std::move(parts));
    caf::anon_send(supervisor, start_atom::value);
  }

  void open(OneStream stream, Delivery delivery) {
    auto link = std::make_shared<SessionLink>();
    stream.session = system().spawn<SessionActor>(
        SessionParts{.id = streams.size() + 1,
                     .service = context,
                     .board = board,
                     .supervisor = supervisor,
                     .link = link,
                     .outlet = EventOutlet(recorder(stream.log), board),
                     .request = stream.request,
                     .delivery = delivery});
    link->open(stream.session);
    caf::anon_send(stream.session, begin_atom::value);
    stream.handle = {streams.size() + 1, std::make_shared<SessionControl>(link, delivery)};
    streams.push_back(std::move(stream));
  }

  void stop() {
    caf::anon_send(supervisor, stop_atom::value, std::chrono::milliseconds(0));
    run_out();
    for (OneStream& stream : streams) stream.session = nullptr;
    supervisor = nullptr;
  }
};

const std::vector<OneStream>& catalogue() {
  static const std::vector<OneStream> streams = [] {
    std::vector<OneStream> made;
    ScriptedEngineOptions options;
    options.next_token = ending_script(60);
    options.context = 96;
    for (int i = 0; i < 12; ++i) {
      OneStream stream;
      stream.request.input =
          std::string(static_cast<std::size_t>(1 + i * 5 % 40), static_cast<char>('a' + i));
      stream.request.stop.max_new_tokens = 10 + i * 3;
      stream.expected = text_alone(scripted_engine(options), stream.request);
      made.push_back(std::move(stream));
    }
    return made;
  }();
  return streams;
}

void disturb(OneStream& stream, std::uint64_t how) {
  stream.disturbed = true;
  if (how % 3 == 0) {
    stream.handle.cancel("test");
  } else if (how % 3 == 1) {
    stream.handle.listener_gone();
    stream.abandoned = true;
  } else {
    caf::anon_send_exit(stream.session, caf::exit_reason::kill);
  }
}

/// An actor that breaks for whatever reason, at any moment.
void kill_a_child(Machine& machine, std::uint64_t which) {
  const SupervisorState& state = actor_of<SupervisorActor>(machine.supervisor).state;
  const auto kill = [](const auto& child) {
    if (child) caf::anon_send_exit(child, caf::exit_reason::kill);
  };
  if (which % 3 == 0) kill(state.scheduler);
  if (which % 3 == 1) kill(state.executor);
  if (which % 3 == 2) kill(state.kv);
}

void play(std::uint32_t seed) {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Machine machine;
  const bool harsh = seed % 3 == 0;  // failures of the backend as well
  std::size_t opened = 0;
  int quiet_rounds = 0;
  int turns = 0;
  while (quiet_rounds < 3) {
    REQUIRE(++turns < 30000);  // else something turns for ever
    const bool peace = turns > 3000;
    const std::uint64_t dice = random() % 100;
    if (dice < 6 && opened < catalogue().size()) {
      OneStream stream;
      stream.request = catalogue()[opened].request;
      stream.expected = catalogue()[opened].expected;
      ++opened;
      machine.open(std::move(stream),
                   random() % 2 == 0 ? Delivery::kOnReturn : Delivery::kAcknowledged);
    } else if (dice == 7 && !peace && !machine.streams.empty()) {
      disturb(machine.streams[random() % machine.streams.size()], random());
    } else if (dice == 8 && harsh && !peace) {
      *machine.fatal = static_cast<int>(1 + random() % 5);
    } else if (dice == 9 && harsh && !peace) {
      kill_a_child(machine, random());
    } else if (dice < 20 && !machine.streams.empty()) {
      const OneStream& stream = machine.streams[random() % machine.streams.size()];
      stream.handle.delivered(stream.log->last_number());
    } else if (dice < 24) {
      machine.scheduler().trigger_timeouts();
    }
    if (machine.run_any(random)) {
      quiet_rounds = 0;
      continue;
    }
    if (opened < catalogue().size()) continue;
    // Nothing moves: everybody acknowledges, timers fire, the backend stays whole.
    *machine.fatal = -1;
    for (const OneStream& stream : machine.streams) {
      stream.handle.delivered(stream.log->last_number());
    }
    machine.scheduler().trigger_timeouts();
    ++quiet_rounds;
  }

  for (const OneStream& stream : machine.streams) {
    if (!stream.disturbed) {
      CHECK(stream.log->sound());
      CHECK(stream.log->text() == stream.expected);
    } else if (!stream.abandoned || stream.log->terminals() > 0) {
      CHECK(stream.log->sound());
      CHECK(stream.expected.starts_with(stream.log->text()));
    }
  }
  const EngineStats stats = machine.board->read();
  if (!harsh) CHECK(stats.executor_restarts == 0);  // no integrity check failed either
  CHECK(stats.sessions == 0);
  CHECK(stats.kv.used == 0);
  CHECK(stats.kv.sequences == 0);
  CHECK(stats.scheduler.running == 0);
  CHECK(stats.scheduler.waiting == 0);
  machine.stop();
}

TEST_CASE("a scheduler of the past is not listened to", "[actors]") {
  Machine machine;
  machine.run();
  OneStream stream = catalogue()[3];
  stream.log = std::make_shared<StreamLog>();
  machine.open(stream, Delivery::kOnReturn);
  Publication token;
  token.sequence = 1;
  token.token.id = 'X';
  for (int turn = 0; machine.scheduler().try_run_once(); ++turn) {
    if (turn % 8 == 0 && stream.log->terminals() == 0) {
      caf::anon_send(machine.streams[0].session, publish_atom::value, Epoch{0},
                     Publications{{token}});
    }
  }
  machine.run();
  CHECK(stream.log->sound());
  CHECK(stream.log->text() == stream.expected);
  machine.stop();
}

TEST_CASE("any order of messages gives the same streams and returns every block", "[actors]") {
  for (std::uint32_t seed = 1; seed <= 150; ++seed) play(seed);
}

}  // namespace
