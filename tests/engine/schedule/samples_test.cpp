// Samples of one prompt, priorities, swap: how the scheduler deals with them.
#include <catch2/catch.hpp>

#include "engine/schedule/waiting_queue.hpp"
#include "tests/engine/schedule/rig.hpp"

namespace sluice::test {
namespace {

void run(Rig& rig) {
  int steps = 0;
  while (rig.step()) REQUIRE(++steps < 1000);
}

std::vector<SequenceId> order(const WaitingQueue& queue) {
  std::vector<SequenceId> ids;
  for (const Sequence* sequence : queue.entries()) ids.push_back(sequence->id);
  return ids;
}

}  // namespace

TEST_CASE("samples of one prompt compute it once and each says what it says alone") {
  for (const bool prefix_cache : {true, false}) {
    RigOptions options;
    options.kv.prefix_cache = prefix_cache;
    options.scheduler.prefill_chunk = 6;
    Rig rig(options);
    for (SequenceId id = 1; id <= 4; ++id) {
      SequenceRequest asked = request(id, prompt_of(7, 21), 10 + static_cast<Position>(id));
      asked.sample_group = 99;
      rig.submit(asked);
    }
    run(rig);
    for (SequenceId id = 1; id <= 4; ++id) {
      CHECK(rig.streams.at(id).output == uncontended(rig.streams.at(id).request, 0));
    }
    // 21 positions for the first, one for each of the others.
    CHECK(rig.scheduler.stats().prompt_tokens == 21 + 3);
    // Position 20 is the first of its block: nothing to copy. With 22 there is.
    CHECK(rig.kv.stats().copies == 0);
    for (SequenceId id = 1; id <= 4; ++id) rig.remove(id);
    CHECK(rig.kv.stats().used == 0);
  }
}

TEST_CASE("samples copy the prompt's last block before they write to it") {
  RigOptions options;
  options.kv.prefix_cache = false;
  Rig rig(options);
  for (SequenceId id = 1; id <= 3; ++id) {
    SequenceRequest asked = request(id, prompt_of(7, 23), 9);
    asked.sample_group = 5;
    rig.submit(asked);
  }
  run(rig);
  for (SequenceId id = 1; id <= 3; ++id) {
    CHECK(rig.streams.at(id).output == uncontended(rig.streams.at(id).request, 0));
  }
  CHECK(rig.kv.stats().copies == 2);
  CHECK(rig.scheduler.stats().prompt_tokens == 23 + 2);
}

TEST_CASE("a group's number alone shares nothing") {
  Rig rig({});
  for (SequenceId id = 1; id <= 3; ++id) {
    SequenceRequest asked = request(id, prompt_of(id == 3 ? 1 : id, 9), 5);
    asked.sample_group = 5;
    if (id == 3) asked.salt = "other";
    rig.submit(asked);
  }
  run(rig);
  for (SequenceId id = 1; id <= 3; ++id) {
    CHECK(rig.streams.at(id).output == uncontended(rig.streams.at(id).request, 0));
  }
  CHECK(rig.scheduler.stats().prompt_tokens == 27);
}

TEST_CASE("when the first sample goes another computes the prompt") {
  RigOptions options;
  options.scheduler.prefill_chunk = 4;
  options.kv.prefix_cache = false;
  Rig rig(options);
  for (SequenceId id = 1; id <= 3; ++id) {
    SequenceRequest asked = request(id, prompt_of(7, 16), 5);
    asked.sample_group = 5;
    rig.submit(asked);
  }
  rig.step();
  CHECK(rig.scheduler.stats().running == 1);
  rig.remove(1);
  run(rig);
  for (SequenceId id = 2; id <= 3; ++id) {
    CHECK(rig.streams.at(id).output == uncontended(rig.streams.at(id).request, 0));
  }
  CHECK(rig.scheduler.stats().prompt_tokens == 4 + 16 + 1);
}

TEST_CASE("higher priorities go first and nobody is passed for ever") {
  WaitingQueue queue(3);
  std::vector<std::unique_ptr<Sequence>> all;
  const auto add = [&](SequenceId id, std::int32_t priority, bool started = false) {
    all.push_back(std::make_unique<Sequence>());
    all.back()->id = id;
    all.back()->arrival = id;
    all.back()->priority = priority;
    all.back()->started = started;
    queue.insert(*all.back());
    CHECK(queue.in_order());
  };
  add(1, 0);
  add(2, 0);
  add(3, 5);
  add(4, 1);
  CHECK(order(queue) == std::vector<SequenceId>{3, 4, 1, 2});
  add(5, 5);
  CHECK(order(queue) == std::vector<SequenceId>{3, 5, 4, 1, 2});
  // 1 and 2 have been passed three times, 4 once.
  add(6, 5);
  CHECK(order(queue) == std::vector<SequenceId>{3, 5, 4, 1, 2, 6});
  add(7, -1);
  add(8, 9);
  CHECK(order(queue) == std::vector<SequenceId>{3, 5, 4, 1, 2, 8, 6, 7});
  // Who was running before goes before everybody, in order of arrival.
  add(0, -5, true);
  CHECK(order(queue).front() == 0);
  queue.remove(*all[2]);
  CHECK(order(queue) == std::vector<SequenceId>{0, 5, 4, 1, 2, 8, 6, 7});
}

}  // namespace sluice::test
