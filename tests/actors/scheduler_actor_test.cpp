// Scheduler and KV manager as actors, one message at a time, with sessions and an executor that
// do what the test says.
#include "actors/scheduler_actor.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "actors/actor_base.hpp"
#include "actors/kv_manager_actor.hpp"
#include "tests/actors/coordinated_system.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

/// Remembers the batch and answers when told to.
class HeldExecutor final : public ExecutorRef::base {
 public:
  explicit HeldExecutor(caf::actor_config& config) : ExecutorRef::base(config) {}

  std::optional<StepBatch> batch;

  /// Every slice that samples draws token 7. The answer goes out with the next message to the
  /// executor, because only a running actor may send.
  void finish(const std::string& fatal = {}) {
    StepResult result;
    result.number = batch->number;
    result.fatal = fatal;
    for (const StepSlice& slice : batch->slices) {
      SliceResult part;
      part.sequence = slice.sequence;
      if (slice.sample) part.token.emplace().id = 7;
      result.slices.push_back(std::move(part));
    }
    batch.reset();
    result_ = std::move(result);
    caf::anon_send(ExecutorRef(this), prepare_atom::value);
  }

  /// A promise that is never kept holds on to its actor.
  void on_exit() override { promise_ = {}; }

 protected:
  behavior_type make_behavior() override {
    set_default_handlers(*this, "held executor");
    return {
        [this](prepare_atom) {
          promise_.deliver(std::move(result_));
          return BackendReport{};
        },
        [this](step_atom, StepBatch& next) {
          batch = std::move(next);
          promise_ = make_response_promise<StepResult>();
          return promise_;
        },
        [](tick_atom) {},
        [](inspect_atom) { return ExecutorView{}; },
    };
  }

 private:
  caf::typed_response_promise<StepResult> promise_;
  StepResult result_;
};

struct Heard {
  Epoch epoch = 0;
  std::vector<Publication> list;
};

/// Remembers publications and says nothing.
class SilentSession final : public SessionRef::base {
 public:
  explicit SilentSession(caf::actor_config& config) : SessionRef::base(config) {}
  std::vector<Heard> heard;

 protected:
  behavior_type make_behavior() override {
    set_default_handlers(*this, "silent session");
    return {
        [](begin_atom) {},
        [](serve_atom, const Service&) {},
        [](refuse_atom, const Refusal&) {},
        [this](publish_atom, Epoch epoch, Publications& publications) {
          heard.push_back({epoch, std::move(publications.list)});
        },
        [](judged_atom, std::uint64_t, const StopAnswer&) {},
        [](delivered_atom, std::uint64_t) {},
        [](unheard_atom) {},
        [](pause_atom) {},
        [](resume_atom) {},
        [](change_atom, const StreamChanges&) {},
        [](cancel_atom, const std::string&) {},
        [](gone_atom) {},
        [](tick_atom) {},
        [](inspect_atom) { return SessionView{}; },
    };
  }
};

struct Fixture : CoordinatedSystem {
  std::shared_ptr<StatsBoard> board = std::make_shared<StatsBoard>();
  KvManagerRef kv;
  ExecutorRef executor_ref;
  SchedulerRef scheduler_ref;
  std::vector<SessionRef> sessions;

  explicit Fixture(std::int32_t num_blocks = 64) {
    KvManagerParts kv_parts;
    kv_parts.options.num_blocks = num_blocks;
    kv_parts.options.block_size = 4;
    kv_parts.board = board;
    kv = system().spawn<KvManagerActor>(std::move(kv_parts));
    executor_ref = system().spawn<HeldExecutor>();
    SchedulerParts parts;
    parts.epoch = 5;
    parts.options.context_length = 256;
    parts.kv = kv;
    parts.executor = executor_ref;
    parts.board = board;
    scheduler_ref = system().spawn<SchedulerActor>(std::move(parts));
    run();
  }

  ~Fixture() {
    for (const SessionRef& session : sessions) caf::anon_send_exit(session, kKill);
    caf::anon_send_exit(scheduler_ref, kKill);
    caf::anon_send_exit(executor_ref, kKill);
    caf::anon_send_exit(kv, kKill);
    run_out();
  }

  HeldExecutor& executor() { return actor_of<HeldExecutor>(executor_ref); }
  SilentSession& session(std::size_t i) { return actor_of<SilentSession>(sessions[i]); }

  /// Sequence numbers count from 1 in the order of calls.
  void submit(std::size_t prompt_tokens, std::int32_t credit) {
    sessions.push_back(system().spawn<SilentSession>());
    Submission submission;
    submission.session = sessions.back();
    submission.request.id = sessions.size();
    submission.request.prompt.assign(prompt_tokens, static_cast<TokenId>(sessions.size()));
    submission.request.sampling = std::make_shared<const SamplingParams>();
    submission.request.max_new_tokens = 100;
    submission.request.credit = credit;
    caf::anon_send(scheduler_ref, submit_atom::value, std::move(submission));
    run();
  }

  /// Answers the step and handles everything up to the next one.
  void step() {
    REQUIRE(executor().batch);
    executor().finish();
    run();
  }

  std::vector<SequenceId> batch() {
    std::vector<SequenceId> ids;
    if (!executor().batch) return ids;
    for (const StepSlice& slice : executor().batch->slices) ids.push_back(slice.sequence);
    return ids;
  }

  static constexpr auto kKill = caf::exit_reason::kill;
};

TEST_CASE("steps follow each other as long as there is credit", "[actors]") {
  Fixture f;
  f.submit(10, 3);
  REQUIRE(f.batch() == std::vector<SequenceId>{1});
  f.step();
  f.step();
  f.step();
  CHECK(f.batch().empty());  // three tokens drawn, no word from the session
  REQUIRE(f.session(0).heard.size() == 3);
  for (const Heard& heard : f.session(0).heard) CHECK(heard.epoch == 5);
  CHECK(f.session(0).heard[0].list.size() == 2);  // prefill and token in one message
  CHECK(f.session(0).heard[2].list.size() == 1);
  caf::anon_send(f.scheduler_ref, credit_atom::value, SequenceId{1}, 1);
  f.run();
  CHECK(f.batch() == std::vector<SequenceId>{1});
}

TEST_CASE("a session that dies during a step has its blocks back before the step ends",
          "[actors]") {
  Fixture f;
  f.submit(10, 5);
  f.step();  // prefill of 1
  f.submit(20, 5);
  f.step();  // 2 takes part from here
  REQUIRE(f.batch() == std::vector<SequenceId>{1, 2});
  const std::int32_t both = f.board->read().kv.used;
  caf::anon_send_exit(f.sessions[1], Fixture::kKill);
  f.run();
  REQUIRE(f.executor().batch);  // still running
  CHECK(f.board->read().kv.sequences == 1);
  CHECK(f.board->read().kv.used <= both - 5);
  CHECK(f.board->read().scheduler.running == 1);
  f.step();
  CHECK(f.batch() == std::vector<SequenceId>{1});
}

TEST_CASE("a session that dies in the queue leaves it", "[actors]") {
  Fixture f(16);
  f.submit(40, 5);
  f.submit(40, 5);  // does not fit beside the first
  CHECK(f.board->read().scheduler.waiting == 1);
  caf::anon_send_exit(f.sessions[1], Fixture::kKill);
  f.run();
  CHECK(f.board->read().scheduler.waiting == 0);
  CHECK(f.board->read().kv.sequences == 1);
}

TEST_CASE("a session that died before its submission leaves nothing behind", "[actors]") {
  Fixture f;
  const SessionRef dead = f.system().spawn<SilentSession>();
  caf::anon_send_exit(dead, Fixture::kKill);
  f.run();
  Submission submission;
  submission.session = dead;
  submission.request.id = 9;
  submission.request.prompt.assign(30, 1);
  submission.request.max_new_tokens = 10;
  submission.request.credit = 4;
  caf::anon_send(f.scheduler_ref, submit_atom::value, std::move(submission));
  f.run();
  if (f.executor().batch) f.step();
  CHECK(f.batch().empty());
  const EngineStats stats = f.board->read();
  CHECK(stats.kv.used == 0);
  CHECK(stats.kv.sequences == 0);
  CHECK(stats.scheduler.running + stats.scheduler.waiting == 0);
}

TEST_CASE("nobody is preempted for a sequence that the KV manager has let go", "[actors]") {
  Fixture f;
  f.submit(10, 50);
  f.step();
  f.submit(10, 50);
  f.step();
  REQUIRE(f.batch() == std::vector<SequenceId>{1, 2});
  // As if the KV manager had heard of the death of session 1 before the scheduler has.
  caf::anon_send(f.kv, release_atom::value, SequenceId{1});
  f.run();
  for (int i = 0; i < 8; ++i) f.step();  // crosses the ends of blocks
  CHECK(f.batch() == std::vector<SequenceId>{2});
  CHECK(f.board->read().scheduler.preemptions == 0);
  CHECK(f.board->read().kv.sequences == 1);
}

TEST_CASE("a queue waits for blocks and moves when they come back", "[actors]") {
  Fixture f(16);
  f.submit(40, 1);
  f.submit(40, 1);
  f.step();
  CHECK(f.batch().empty());
  CHECK(f.board->read().scheduler.waiting == 1);
  caf::anon_send(f.scheduler_ref, remove_atom::value, SequenceId{1});
  f.run();
  CHECK(f.batch() == std::vector<SequenceId>{2});
}

/// No block of a batch may be written for two sequences.
void check_blocks_apart(const StepBatch& batch) {
  std::map<BlockId, SequenceId> owner;
  for (const StepSlice& slice : batch.slices) {
    for (const BlockId block : slice.blocks) {
      const auto [entry, fresh] = owner.emplace(block, slice.sequence);
      if (!fresh) CHECK(entry->second == slice.sequence);
    }
  }
}

/// Plays three sequences in a pool too small and lets one session die at the given message. The
/// KV manager hears of it at once, the scheduler at the same time or `lag` messages later.
void play_a_death(std::size_t victim, int moment, int lag) {
  INFO("victim " << victim << " at " << moment << " lag " << lag);
  Fixture f(11);  // 44 positions: three sequences outgrow them
  for (int i = 0; i < 3; ++i) f.submit(8, 100);
  for (int message = 0; message < 400; ++message) {
    if (message == moment) {
      caf::anon_send(f.kv, release_atom::value, SequenceId{victim + 1});
      f.scheduler().prioritize(f.kv);
    }
    if (message == moment + lag) {
      caf::anon_send_exit(f.sessions[victim], Fixture::kKill);
      f.scheduler().prioritize(f.sessions[victim]);
    }
    if (f.executor().batch) {
      check_blocks_apart(*f.executor().batch);
      f.executor().finish();
    }
    if (!f.scheduler().try_run_once()) break;
  }
  CHECK(actor_of<KvManagerActor>(f.kv).state.kv->audit().empty());
  CHECK(actor_of<SchedulerActor>(f.scheduler_ref).state.scheduler->audit().empty());
  CHECK(f.board->read().kv.sequences <= 2);
  for (std::size_t i = 0; i < 3; ++i) {
    if (i != victim) CHECK(f.session(i).heard.size() > 1);
  }
}

TEST_CASE("a session may die between any two messages", "[actors]") {
  for (int moment = 0; moment < 160; ++moment) {
    for (std::size_t victim = 0; victim < 3; ++victim) {
      play_a_death(victim, moment, 0);
      play_a_death(victim, moment, 12);
    }
  }
}

TEST_CASE("after a fatal step nothing more is sent to the executor", "[actors]") {
  Fixture f;
  f.submit(10, 5);
  f.executor().finish("the device is lost");
  f.run();
  f.submit(10, 5);
  caf::anon_send(f.scheduler_ref, credit_atom::value, SequenceId{1}, 1);
  f.run();
  CHECK(f.batch().empty());
  CHECK(f.session(0).heard.empty());
}

TEST_CASE("a lost executor leaves the scheduler waiting for its supervisor", "[actors]") {
  Fixture f;
  caf::anon_send_exit(f.executor_ref, Fixture::kKill);
  f.run();
  f.submit(10, 5);
  CHECK(f.session(0).heard.empty());
  CHECK(actor_of<SchedulerActor>(f.scheduler_ref).state.stage == SchedulerStage::kBroken);
}

TEST_CASE("the KV manager frees a dead session without being told", "[actors]") {
  Fixture f;
  const SessionRef session = f.system().spawn<SilentSession>();
  AdmitRequest admit;
  admit.entries.push_back(
      {.sequence = 4, .tokens = std::vector<TokenId>(20, 1), .salt = {}, .session = session});
  caf::anon_send(f.kv, admit_atom::value, std::move(admit));
  ReserveRequest reserve;
  reserve.wants = {{4, 20}};
  caf::anon_send(f.kv, reserve_atom::value, std::move(reserve));
  f.run();
  CHECK(f.board->read().kv.used == 5);
  caf::anon_send_exit(session, Fixture::kKill);
  f.run();
  CHECK(f.board->read().kv.used == 0);
  CHECK(f.board->read().kv.sequences == 0);
}

TEST_CASE("a reset forgets sequences and the sessions behind them", "[actors]") {
  Fixture f;
  f.submit(10, 5);
  f.step();
  caf::anon_send(f.kv, reset_atom::value);
  f.run();
  CHECK(f.board->read().kv.used == 0);
  CHECK(f.board->read().kv.cached == 0);
  caf::anon_send_exit(f.sessions[0], Fixture::kKill);
  f.run();
  CHECK(actor_of<KvManagerActor>(f.kv).state.kv->audit().empty());
}

}  // namespace
