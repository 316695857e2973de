// One terminal event, whatever happens; and the board that counts it.
#include "actors/event_outlet.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tests/support/stream_log.hpp"

namespace {

using namespace sluice;
using namespace sluice::test;

struct Fixture {
  std::shared_ptr<StatsBoard> board = std::make_shared<StatsBoard>();
  std::shared_ptr<StreamLog> log = std::make_shared<StreamLog>();
  std::optional<EventOutlet> outlet{std::in_place, recorder(log), board};

  static DoneEvent done(std::uint64_t number) {
    DoneEvent event;
    event.number = number;
    event.rule = StopRule::kEndToken;
    return event;
  }
  std::uint64_t finished(const std::string& outcome) const {
    const auto counts = board->read().streams_finished;
    const auto found = counts.find(outcome);
    return found == counts.end() ? 0 : found->second;
  }
};

TEST_CASE("nothing passes an outlet after the terminal event", "[outlet]") {
  Fixture f;
  CHECK(f.board->read().sessions == 1);
  f.outlet->push(AcceptedEvent{.number = 1, .model = "m"});
  f.outlet->push(Fixture::done(2));
  CHECK(f.log->wait_for_destruction());  // the handler has gone with it
  f.outlet->push(Fixture::done(3));
  f.outlet->fail("late", "Too late.");
  f.outlet.reset();
  CHECK(f.log->sound());
  CHECK(f.log->outcome() == "end_token");
  CHECK(f.finished("end_token") == 1);
  CHECK(f.finished("error") == 0);
  CHECK(f.board->read().sessions == 0);
  CHECK(f.board->read().streams_started == 1);
}

TEST_CASE("an outlet that is destroyed early says so", "[outlet]") {
  Fixture f;
  f.outlet->push(AcceptedEvent{.number = 1, .model = "m"});
  f.outlet.reset();
  CHECK(f.log->sound());
  CHECK(f.log->outcome() == "error:internal");
  CHECK(f.log->last_number() == 2);
  CHECK(f.finished("error") == 1);
}

TEST_CASE("a listener that went away hears nothing", "[outlet]") {
  Fixture f;
  f.outlet->abandon();
  CHECK(f.log->wait_for_destruction());
  f.outlet->push(Fixture::done(1));
  f.outlet.reset();
  CHECK(f.log->events().empty());
  CHECK(f.finished("cancelled") == 1);
}

TEST_CASE("an outlet moves with its duty", "[outlet]") {
  Fixture f;
  {
    const EventOutlet moved(std::move(*f.outlet));
    f.outlet.reset();
    CHECK(f.log->terminals() == 0);
    CHECK(f.board->read().sessions == 1);
  }
  CHECK(f.log->terminals() == 1);
  CHECK(f.board->read().sessions == 0);
}

TEST_CASE("a handler that throws is heard by the session and no more at the end", "[outlet]") {
  auto board = std::make_shared<StatsBoard>();
  int calls = 0;
  {
    EventOutlet outlet(
        [&](const Event&) {
          ++calls;
          throw std::runtime_error("broken");
        },
        board);
    CHECK_THROWS(outlet.push(AcceptedEvent{.number = 1, .model = "m"}));
    CHECK_THROWS(outlet.push(Fixture::done(2)));
  }
  CHECK(calls == 2);
}

TEST_CASE("counters go on over a restart", "[outlet]") {
  StatsBoard board;
  SchedulerStats stats;
  stats.steps = 10;
  stats.generated_tokens = 30;
  stats.running = 2;
  board.scheduler(stats);
  board.scheduler_lost();
  board.executor_restarted();
  CHECK(board.read().scheduler.steps == 10);
  CHECK(board.read().scheduler.running == 0);
  stats.steps = 4;
  board.scheduler(stats);
  CHECK(board.read().scheduler.steps == 14);
  CHECK(board.read().scheduler.generated_tokens == 60);
  CHECK(board.read().executor_restarts == 1);
}

}  // namespace
