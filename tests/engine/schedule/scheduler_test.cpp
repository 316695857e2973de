#include "engine/schedule/scheduler.hpp"

#include <catch2/catch.hpp>

#include "tests/engine/schedule/rig.hpp"

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

SequencePhase phase(const Rig& rig, SequenceId id) {
  const auto status = rig.scheduler.status(id);
  return status ? status->phase : SequencePhase::kUnknown;
}

void run(Rig& rig, int limit = 10'000) {
  while (rig.step()) REQUIRE(--limit > 0);
}

}  // namespace

TEST_CASE("a sequence alone gives its script and then waits for its verdict") {
  Rig rig({});
  rig.submit(request(1, prompt_of(1, 10), 7));
  run(rig);
  const auto& stream = rig.streams.at(1);
  CHECK(stream.output.size() == 7);
  CHECK(stream.output == uncontended(stream.request, 0));
  CHECK(phase(rig, 1) == SequencePhase::kAwaitingVerdict);
  CHECK_FALSE(rig.scheduler.has_work());
  rig.remove(1);
  CHECK(phase(rig, 1) == SequencePhase::kUnknown);
  CHECK(rig.kv.stats().used == 0);
}

TEST_CASE("submissions that can not be served are refused with a reason") {
  Rig rig({.scheduler = {.max_waiting = 2, .max_waiting_tokens = 100, .context_length = 60}});
  CHECK(rig.submit(request(1, {}, 4)) == RejectReason::kEmptyPrompt);
  CHECK(rig.submit(request(1, prompt_of(1, 60), 4)) == RejectReason::kPromptTooLong);
  CHECK(rig.submit(request(1, prompt_of(1, 59), 4)) == RejectReason::kNone);
  CHECK(rig.submit(request(1, prompt_of(1, 9), 4)) == RejectReason::kDuplicateId);
  CHECK(rig.submit(request(2, prompt_of(1, 42), 4)) == RejectReason::kQueueFull);
  CHECK(rig.submit(request(2, prompt_of(1, 41), 4)) == RejectReason::kNone);
  CHECK(rig.submit(request(3, prompt_of(1, 1), 4)) == RejectReason::kQueueFull);
  SequenceRequest continued = request(3, prompt_of(1, 1), 4);
  continued.generated = {5};
  CHECK(rig.submit(continued) == RejectReason::kNone);
  for (const RejectReason reason :
       {RejectReason::kQueueFull, RejectReason::kPromptTooLong, RejectReason::kEmptyPrompt,
        RejectReason::kDuplicateId, RejectReason::kStopping}) {
    CHECK_FALSE(reject_message(reason).empty());
  }
}

TEST_CASE("credit is the number of tokens that may be drawn") {
  Rig rig({});
  rig.submit(request(1, prompt_of(1, 10), 50, 0));
  rig.submit(request(2, prompt_of(2, 10), 50, 3));
  run(rig);
  // Without credit it stays in the queue and lets the other pass.
  CHECK(phase(rig, 1) == SequencePhase::kWaiting);
  CHECK(rig.scheduler.status(1)->queue_position == 1);
  CHECK(rig.streams.at(2).output.size() == 3);
  CHECK(phase(rig, 2) == SequencePhase::kPaused);
  CHECK(rig.kv.stats().used == 3);
  rig.credit(1, 2);
  rig.credit(2, 5);
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 2);
  CHECK(rig.streams.at(2).output.size() == 8);
  rig.scheduler.add_credit(2, -7);
  rig.scheduler.add_credit(77, 7);
  rig.credit(1, 100);
  rig.credit(2, 2'000'000'000);
  rig.credit(2, 2'000'000'000);
  run(rig);
  for (const SequenceId id : {SequenceId{1}, SequenceId{2}}) {
    CHECK(rig.streams.at(id).output == uncontended(rig.streams.at(id).request, 0));
  }
}

TEST_CASE("decodes come first and prefill chunks fill the rest in order of arrival") {
  Rig rig({.scheduler = {.token_budget = 20, .prefill_chunk = 12}});
  rig.submit(request(1, prompt_of(1, 5), 50));
  rig.step();
  rig.submit(request(2, prompt_of(2, 30), 50));
  rig.submit(request(3, prompt_of(3, 30), 50));
  rig.step();
  REQUIRE(rig.last_batch.slices.size() == 3);
  CHECK(rig.last_batch.slices[0].sequence == 1);
  CHECK(rig.last_batch.slices[0].tokens.size() == 1);
  CHECK(rig.last_batch.slices[0].sample);
  CHECK(rig.last_batch.slices[1].sequence == 2);
  CHECK(rig.last_batch.slices[1].tokens.size() == 12);
  CHECK_FALSE(rig.last_batch.slices[1].sample);
  CHECK(rig.last_batch.slices[2].sequence == 3);
  CHECK(rig.last_batch.slices[2].tokens.size() == 7);
  rig.step();
  rig.step();
  REQUIRE(rig.last_batch.slices.size() == 3);
  CHECK(rig.last_batch.slices[1].sequence == 2);
  CHECK(rig.last_batch.slices[1].tokens.size() == 6);
  CHECK(rig.last_batch.slices[1].sample);
  CHECK(rig.last_batch.slices[2].tokens.size() == 12);
  const auto& progress = rig.streams.at(2).progress;
  REQUIRE(progress.size() == 3);
  CHECK(progress[0].done == 12);
  CHECK(progress[1].done == 24);
  CHECK(progress[2].done == 30);
  CHECK(progress[2].total == 30);
}

TEST_CASE("with a budget below the number of sequences nobody starves") {
  for (const Position budget : {1, 2, 3}) {
    Rig rig({.scheduler = {.token_budget = budget, .prefill_chunk = 4},
             .kv = {.num_blocks = 2000, .block_size = 4}});
    for (SequenceId id = 1; id <= 6; ++id) rig.submit(request(id, prompt_of(id, 6), 1000));
    for (int i = 0; i < 300; ++i) rig.step();
    std::size_t least = 1000;
    std::size_t most = 0;
    for (const auto& [id, stream] : rig.streams) {
      least = std::min(least, stream.output.size());
      most = std::max(most, stream.output.size());
    }
    CHECK(least > 20);
    CHECK(most - least < 40);
  }
}

TEST_CASE("an end token and the maximum wait for a verdict that can be to go on") {
  Rig rig({});
  SequenceRequest asked = request(1, prompt_of(4, 10), 400);
  asked.end_tokens = {kEndToken};
  const std::vector<TokenId> until_end = uncontended(asked, 0);
  REQUIRE(until_end.size() < 300);
  REQUIRE(until_end.back() == kEndToken);
  rig.submit(asked);
  run(rig);
  CHECK(rig.streams.at(1).output == until_end);
  CHECK(phase(rig, 1) == SequencePhase::kAwaitingVerdict);

  rig.scheduler.resume_after_verdict(1);
  rig.scheduler.set_max_new_tokens(1, static_cast<Position>(until_end.size()) + 5);
  run(rig);
  CHECK(rig.streams.at(1).output.size() > until_end.size());
  asked.end_tokens.clear();
  asked.max_new_tokens = static_cast<Position>(rig.streams.at(1).output.size());
  CHECK(rig.streams.at(1).output == uncontended(asked, 0));
}

TEST_CASE("a changed maximum opens and closes a sequence") {
  Rig rig({});
  rig.submit(request(1, prompt_of(1, 10), 4));
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 4);
  rig.scheduler.set_max_new_tokens(1, 6);
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 6);
  rig.scheduler.set_max_new_tokens(1, 100);
  rig.step();
  rig.scheduler.set_max_new_tokens(1, 2);
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 7);
  rig.scheduler.resume_after_verdict(1);
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 8);
  SequenceRequest whole = rig.streams.at(1).request;
  whole.max_new_tokens = 8;
  CHECK(rig.streams.at(1).output == uncontended(whole, 0));
}

TEST_CASE("end tokens before the minimum do not wait") {
  Rig rig({.next_token = [](std::span<const TokenId>) { return kEndToken; }});
  SequenceRequest asked = request(1, prompt_of(1, 5), 50);
  asked.end_tokens = {kEndToken};
  SamplingParams sampling;
  sampling.min_new_tokens = 3;
  asked.sampling = std::make_shared<const SamplingParams>(sampling);
  rig.submit(asked);
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 3);
}

TEST_CASE("the context ends a sequence after its last token") {
  Rig rig({.scheduler = {.context_length = 16}});
  rig.submit(request(1, prompt_of(1, 10), 100));
  rig.submit(request(2, prompt_of(2, 15), 100));
  rig.submit(request(3, prompt_of(3, 10), 6));
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 6);
  CHECK(rig.streams.at(1).ends_of_room == 1);
  CHECK(rig.streams.at(2).output.size() == 1);
  CHECK(rig.streams.at(2).ends_of_room == 1);
  CHECK(rig.streams.at(3).output.size() == 6);
  CHECK(rig.streams.at(3).ends_of_room == 1);
  rig.scheduler.resume_after_verdict(1);
  rig.scheduler.set_max_new_tokens(1, 1000);
  run(rig);
  CHECK(rig.streams.at(1).output.size() == 6);
}

TEST_CASE("a continued sequence is not drawn again") {
  Rig rig({.scheduler = {.context_length = 40}});
  SequenceRequest whole = request(1, prompt_of(1, 10), 12);
  const std::vector<TokenId> all = uncontended(whole, 40);
  whole.generated.assign(all.begin(), all.begin() + 5);
  rig.submit(whole);
  SequenceRequest full = request(2, prompt_of(1, 10), 50);
  full.generated = std::vector<TokenId>(30, 7);
  rig.submit(full);
  SequenceRequest done = request(3, prompt_of(3, 10), 5);
  done.generated = std::vector<TokenId>(5, 7);
  rig.submit(done);
  run(rig);
  CHECK(rig.streams.at(1).output == std::vector<TokenId>(all.begin() + 5, all.end()));
  CHECK(rig.streams.at(2).output.empty());
  CHECK(rig.streams.at(2).ends_of_room == 1);
  CHECK(rig.streams.at(3).output.empty());
}

TEST_CASE("alone in the pool a sequence ends when the pool is full") {
  Rig rig({.kv = {.num_blocks = 3, .block_size = 4}});
  rig.submit(request(1, prompt_of(1, 6), 100));
  run(rig);
  // 12 positions in the KV, and the token drawn from the last of them.
  CHECK(rig.streams.at(1).output.size() == 7);
  CHECK(rig.streams.at(1).ends_of_room == 1);
  CHECK(rig.scheduler.stats().preemptions == 0);
  CHECK_FALSE(rig.scheduler.has_work());
}

TEST_CASE("a prompt larger than the pool fails at once and lets others pass") {
  Rig rig({.kv = {.num_blocks = 3, .block_size = 4}});
  rig.submit(request(1, prompt_of(1, 13), 100));
  rig.submit(request(2, prompt_of(2, 5), 4));
  run(rig);
  CHECK_FALSE(rig.streams.at(1).failure.empty());
  CHECK(rig.streams.at(2).output.size() == 4);
  // One that has output already has shown something: it ends for want of room.
  SequenceRequest continued = request(3, prompt_of(1, 8), 100);
  continued.generated = std::vector<TokenId>(5, 7);
  rig.submit(continued);
  run(rig);
  CHECK(rig.streams.at(3).failure.empty());
  CHECK(rig.streams.at(3).ends_of_room == 1);
}

TEST_CASE("a failing sequence leaves the others alone") {
  Rig rig({.next_token = [](std::span<const TokenId> tokens) {
    return tokens[0] == 500 && tokens.size() >= 8 ? -1 : script(tokens);
  }});
  rig.submit(request(1, prompt_of(1, 5), 10));
  rig.submit(request(2, {500, 2, 3, 4, 5}, 10));
  rig.submit(request(3, prompt_of(3, 5), 10));
  run(rig);
  CHECK(rig.streams.at(2).output.size() == 3);
  CHECK_FALSE(rig.streams.at(2).failure.empty());
  CHECK(phase(rig, 2) == SequencePhase::kUnknown);
  CHECK_FALSE(rig.kv.contains(2));
  for (const SequenceId id : {SequenceId{1}, SequenceId{3}})
    CHECK(rig.streams.at(id).output.size() == 10);
}

TEST_CASE("results that do not belong to the step change nothing") {
  Rig rig({});
  rig.submit(request(1, prompt_of(1, 5), 10));
  const auto wants = rig.scheduler.admissions();
  rig.scheduler.on_admission(1, rig.kv.admit(1, wants[0].tokens, ""));
  const KvGrant grant = ask_for(rig.kv, rig.scheduler.plan().at(0));
  const StepBatch batch = rig.scheduler.build(std::vector<KvGrant>{grant});
  CHECK(rig.scheduler.plan().empty());
  StepResult stale = rig.backend->step(batch);
  stale.number += 7;
  CHECK(rig.scheduler.complete(stale).publications.empty());
  CHECK(rig.scheduler.step_running());
  StepResult fatal;
  fatal.number = batch.number;
  fatal.fatal = "device lost";
  const Scheduler::Outcome outcome = rig.scheduler.complete(fatal);
  CHECK(outcome.publications.empty());
  CHECK(outcome.commits.empty());
  CHECK_FALSE(rig.scheduler.step_running());
  CHECK(rig.scheduler.status(1)->computed == 0);
  // A result that leaves a sequence out fails that sequence.
  const StepBatch again = rig.scheduler.build(std::vector<KvGrant>{});
  CHECK(again.slices.empty());
}

TEST_CASE("a sequence removed during its step leaves nothing behind") {
  Rig rig({});
  rig.submit(request(1, prompt_of(1, 9), 10));
  rig.submit(request(2, prompt_of(2, 9), 10));
  int calls = 0;
  rig.interfere = [&] {
    // The fourth interference of the first step comes after the backend has run.
    if (++calls == 4) {
      CHECK(rig.scheduler.step_running());
      rig.remove(1);
      // The same number again: the old result is not the new sequence's.
      rig.submit(request(1, prompt_of(7, 9), 3));
      rig.admit();
    }
  };
  run(rig);
  CHECK(rig.streams.at(1).output == uncontended(rig.streams.at(1).request, 0));
  CHECK(rig.streams.at(2).output == uncontended(rig.streams.at(2).request, 0));
}

TEST_CASE("the youngest is preempted and resumes exactly") {
  Rig rig({.kv = {.num_blocks = 8, .block_size = 4}});
  for (SequenceId id = 1; id <= 3; ++id) rig.submit(request(id, prompt_of(id, 7), 20));
  while (rig.scheduler.stats().preemptions == 0) REQUIRE(rig.step());
  CHECK(phase(rig, 3) == SequencePhase::kWaiting);
  CHECK(rig.scheduler.status(3)->queue_position == 1);
  CHECK(phase(rig, 1) == SequencePhase::kDecode);
  rig.submit(request(4, prompt_of(4, 7), 20));
  CHECK(rig.scheduler.status(3)->queue_position == 1);
  CHECK(rig.scheduler.status(4)->queue_position == 2);
  int steps = 0;
  for (std::size_t done = 0; done < 4;) {
    REQUIRE(rig.step());
    REQUIRE(++steps < 1000);
    for (auto& [id, stream] : rig.streams) {
      if (stream.removed || stream.output.size() < 20) continue;
      rig.remove(id);
      ++done;
    }
  }
  for (const auto& [id, stream] : rig.streams) {
    CHECK(stream.output == uncontended(stream.request, 0));
  }
  CHECK(rig.kv.stats().used == 0);
}

TEST_CASE("a paused sequence gives way only when it has been idle for long and nothing can move") {
  RigOptions options{.kv = {.num_blocks = 6, .block_size = 4, .admission_watermark = 0}};
  options.scheduler.idle_preempt_after = 2000ms;
  Rig rig(options);
  rig.submit(request(1, prompt_of(1, 14), 20, 1));
  run(rig);
  CHECK(phase(rig, 1) == SequencePhase::kPaused);
  rig.submit(request(2, prompt_of(2, 7), 12));
  run(rig);
  // 4 blocks are the paused one's, 2 the other's, which needs a third.
  CHECK(rig.streams.at(2).output.size() == 2);
  CHECK(phase(rig, 1) == SequencePhase::kPaused);
  CHECK(rig.streams.at(2).ends_of_room == 0);
  CHECK_FALSE(rig.scheduler.has_work());
  rig.now += 1999ms;
  run(rig);
  CHECK(phase(rig, 1) == SequencePhase::kPaused);
  rig.now += 1ms;
  rig.scheduler.poll(rig.now);
  CHECK(rig.scheduler.has_work());
  run(rig);
  CHECK(rig.streams.at(2).output.size() == 12);
  CHECK(phase(rig, 1) == SequencePhase::kWaiting);
  rig.remove(2);
  rig.credit(1, 100);
  run(rig);
  CHECK(rig.streams.at(1).ends_of_room == 1);
  SequenceRequest whole = rig.streams.at(1).request;
  whole.max_new_tokens = static_cast<Position>(rig.streams.at(1).output.size());
  CHECK(rig.streams.at(1).output.size() == 11);
  CHECK(rig.streams.at(1).output == uncontended(whole, 0));
}

TEST_CASE("a full pool of paused sequences does not block the queue for ever") {
  Rig rig({.kv = {.num_blocks = 6, .block_size = 4}});
  rig.submit(request(1, prompt_of(1, 20), 20, 1));
  run(rig);
  rig.submit(request(2, prompt_of(2, 12), 3));
  run(rig);
  CHECK(rig.streams.at(2).output.empty());
  rig.now += 2000ms;
  rig.scheduler.poll(rig.now);
  run(rig);
  CHECK(rig.streams.at(2).output.size() == 3);
}

TEST_CASE("a sequence the KV manager does not know costs nobody anything") {
  Rig rig({.kv = {.num_blocks = 64, .block_size = 4}});
  rig.submit(request(1, prompt_of(1, 7), 20));
  rig.submit(request(2, prompt_of(2, 7), 20));
  rig.step();
  rig.kv.release(1);  // its owner died, remove() is on its way
  rig.step();
  rig.step();
  CHECK(rig.scheduler.stats().preemptions == 0);
  CHECK(rig.streams.at(1).output.size() == 1);
  CHECK(rig.streams.at(2).output.size() == 3);
  rig.remove(1);
  run(rig);
  CHECK(rig.streams.at(2).output.size() == 20);
}

TEST_CASE("a sequence that waits past the deadline expires and a preempted one does not") {
  RigOptions options{.kv = {.num_blocks = 8, .block_size = 4}};
  options.scheduler.queue_deadline = 500ms;
  Rig rig(options);
  for (SequenceId id = 1; id <= 3; ++id) rig.submit(request(id, prompt_of(id, 7), 20));
  while (rig.scheduler.stats().preemptions == 0) REQUIRE(rig.step());
  rig.submit(request(4, prompt_of(4, 20), 20));
  rig.now += 499ms;
  CHECK(rig.scheduler.poll(rig.now).publications.empty());
  rig.now += 1ms;
  const Scheduler::Outcome outcome = rig.scheduler.poll(rig.now);
  REQUIRE(outcome.publications.size() == 1);
  CHECK(outcome.publications[0].kind == Publication::Kind::kExpired);
  CHECK(outcome.publications[0].sequence == 4);
  CHECK(outcome.released == std::vector<SequenceId>{4});
  CHECK(phase(rig, 3) == SequencePhase::kWaiting);
  CHECK(phase(rig, 4) == SequencePhase::kUnknown);
}

TEST_CASE("new sampling parameters hold from the next token on and history is complete") {
  Rig rig({});
  rig.submit(request(1, prompt_of(1, 5), 10, 2));
  run(rig);
  SamplingParams sampling;
  sampling.repetition_penalty = 1.1F;
  rig.scheduler.set_sampling(1, std::make_shared<const SamplingParams>(sampling));
  rig.scheduler.set_sampling(1, nullptr);
  rig.credit(1, 1);
  rig.step();
  REQUIRE(rig.last_batch.slices.size() == 1);
  CHECK(rig.last_batch.slices[0].sampling->repetition_penalty == 1.1F);
  CHECK(rig.last_batch.slices[0].history.size() == 7);
  CHECK(rig.last_batch.slices[0].num_generated == 2);
  CHECK(rig.streams.at(1).output.size() == 3);
}

}  // namespace sluice::test
