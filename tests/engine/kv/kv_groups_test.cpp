// Groups of layers with windows, shared samples, swap: what each gives and what it costs.
#include <catch2/catch.hpp>
#include <numeric>

#include "engine/kv/kv_manager.hpp"

namespace sluice {
namespace {

std::vector<TokenId> counting(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

bool admitted(const KvAdmission& admission) {
  return admission.verdict == KvAdmission::Verdict::kAdmitted;
}

/// Admits and computes all of `tokens` in chunks; the positions that were there already.
Position run(KvManager& kv, SequenceId id, const std::vector<TokenId>& tokens, Position chunk = 8,
             const KvFork& fork = {}) {
  const KvAdmission admission = kv.admit(id, tokens, "", fork);
  REQUIRE(admitted(admission));
  const auto total = static_cast<Position>(tokens.size());
  for (Position done = admission.cached_positions; done < total;) {
    const Position next = std::min(chunk, total - done);
    REQUIRE(kv.reserve(id, done + next));
    kv.commit(id, std::span(tokens).subspan(static_cast<std::size_t>(done),
                                            static_cast<std::size_t>(next)));
    done += next;
    REQUIRE(kv.audit() == "");
  }
  return admission.cached_positions;
}

/// One group that sees all and one with a window of 8 positions, blocks of 4.
KvManagerOptions full_and_window(std::int32_t num_blocks = 64, std::int32_t windowed = 16) {
  KvManagerOptions options;
  options.num_blocks = num_blocks;
  options.block_size = 4;
  options.max_chunk = 8;
  options.more_groups = {{windowed, {8, 0}}};
  return options;
}

std::int32_t live(const KvManager& kv, SequenceId id, std::size_t group) {
  const auto table = kv.table(id, group);
  return static_cast<std::int32_t>(table.size()) -
         static_cast<std::int32_t>(std::ranges::count(table, kNoBlock));
}

}  // namespace

TEST_CASE("a group with a window costs its window whatever the length of the sequence") {
  KvManager kv(full_and_window());
  run(kv, 1, counting(0, 200));
  CHECK(live(kv, 1, 0) == 50);
  CHECK(live(kv, 1, 1) <= 4);
  CHECK(kv.table(1, 1).size() == 50);
  CHECK(kv.table(1, 1)[46] == kNoBlock);
  CHECK(kv.table(1, 1)[49] != kNoBlock);
  kv.release(1);
  CHECK(kv.stats().used == 0);
}

TEST_CASE("a budget keeps the first positions and the recent window") {
  KvManagerOptions options;
  options.num_blocks = 12;
  options.block_size = 4;
  options.max_chunk = 8;
  options.visibility = {16, 6};
  KvManager kv(options);
  // 100 positions are more than the 48 of the pool.
  run(kv, 1, counting(0, 100));
  const auto table = kv.table(1);
  CHECK(table[0] != kNoBlock);
  CHECK(table[1] != kNoBlock);
  CHECK(table[2] == kNoBlock);
  CHECK(table[19] == kNoBlock);
  CHECK(table[24] != kNoBlock);
  CHECK(live(kv, 1, 0) <= 2 + 5 + 1);
}

TEST_CASE("a cached beginning serves as far as every group has what is seen from there") {
  KvManager kv(full_and_window());
  run(kv, 1, counting(0, 61));
  kv.release(1);
  // The last window is cached in the second group, and so is what the window left behind.
  CHECK(run(kv, 2, counting(0, 61)) == 60);
  kv.release(2);
  // Others use up the windowed group's blocks: nothing is left there, whatever the first has.
  run(kv, 3, counting(1000, 100));
  CHECK(run(kv, 4, counting(0, 61)) == 0);
  CHECK(kv.audit() == "");
}

TEST_CASE("a second turn computes under five percent of a history of 2000 tokens") {
  for (const bool windows : {false, true}) {
    KvManagerOptions options;
    options.num_blocks = 300;
    if (windows) options.more_groups = {{80, {256, 0}}};
    KvManager kv(options);
    std::vector<TokenId> history = counting(0, 2000);
    run(kv, 1, history, 256);
    // The answer, token by token.
    for (TokenId i = 0; i < 50; ++i) {
      history.push_back(5000 + i);
      REQUIRE(kv.reserve(1, static_cast<Position>(history.size())));
      kv.commit(1, std::span(history).last(1));
    }
    kv.release(1);
    for (TokenId i = 0; i < 30; ++i) history.push_back(7000 + i);
    const auto total = static_cast<Position>(history.size());
    const Position computed = total - run(kv, 2, history, 256);
    CHECK(computed - 30 < 2000 / 20);
    CHECK(computed == total - 2048);
  }
}

TEST_CASE("admission counts what each group needs at its peak") {
  // Window 8 and chunks of 8 in blocks of 4: at most 5 blocks in the second group.
  KvManager kv(full_and_window(64, 9));
  CHECK(admitted(kv.admit(1, counting(0, 100), "")));
  CHECK(kv.admit(2, counting(0, 100), "").verdict == KvAdmission::Verdict::kNotNow);
  KvManager small(full_and_window(64, 4));
  CHECK(small.admit(1, counting(0, 100), "").verdict == KvAdmission::Verdict::kNever);
}

TEST_CASE("a rollback goes no further than the windows allow") {
  KvManager kv(full_and_window());
  run(kv, 1, counting(0, 60));
  // Position 60 sees 53 to 60; one position more is kept, and blocks are kept whole.
  CHECK(kv.rollback(1, 59) == 59);
  CHECK(kv.audit() == "");
  CHECK(kv.rollback(1, 40) == 0);
  CHECK(kv.audit() == "");
  CHECK(kv.stats().used == 0);
}

TEST_CASE("samples share what the first has computed and copy the last block when they write") {
  for (const bool prefix_cache : {true, false}) {
    KvManagerOptions options = full_and_window();
    options.prefix_cache = prefix_cache;
    KvManager kv(options);
    const std::vector<TokenId> prompt = counting(0, 22);
    run(kv, 1, prompt);
    const std::int32_t used = kv.stats().used;
    CHECK(kv.admit(2, prompt, "", {1, 21}).cached_positions == 21);
    CHECK(kv.admit(3, prompt, "", {1, 21}).cached_positions == 21);
    CHECK(kv.stats().used == used);
    CHECK(kv.audit() == "");
    CHECK(kv.take_moves().empty());
    const BlockId full = kv.table(1, 0)[5];
    const BlockId windowed = kv.table(1, 1)[5];
    for (const SequenceId id : {SequenceId{2}, SequenceId{3}}) {
      REQUIRE(kv.reserve(id, 22));
      CHECK(kv.take_moves() ==
            std::vector<BlockMove>{{BlockMove::Kind::kCopy, 0, full, kv.table(id, 0)[5]},
                                   {BlockMove::Kind::kCopy, 1, windowed, kv.table(id, 1)[5]}});
      CHECK(kv.audit() == "");
    }
    // The last owner needs no copy.
    REQUIRE(kv.reserve(1, 23));
    CHECK(kv.take_moves().empty());
    CHECK(kv.table(1, 0)[5] == full);
    CHECK(kv.stats().copies == 4);
    CHECK(kv.stats().used == used + 4);
  }
}

TEST_CASE("a fork that can't be made begins with what is cached") {
  KvManager kv(full_and_window());
  run(kv, 1, counting(0, 40));
  CHECK(run(kv, 2, counting(0, 60), 8, {9, 50}) == 40);  // no such parent
  CHECK(run(kv, 3, counting(0, 60), 8, {1, 41}) == 56);  // it has not computed so many
  CHECK(kv.rollback(3, 0) == 0);
  CHECK(kv.audit() == "");
}

TEST_CASE("a preempted sequence goes to swap and comes back with everything it had") {
  KvManagerOptions options;
  options.num_blocks = 8;
  options.block_size = 4;
  options.swap_slots = 5;
  KvManager kv(options);
  run(kv, 1, counting(0, 18));
  const std::vector<BlockId> before(kv.table(1).begin(), kv.table(1).end());
  CHECK(kv.preempt(1));
  CHECK(kv.is_swapped(1));
  CHECK(kv.stats().used == 0);
  CHECK(kv.stats().swap_used == 5);
  CHECK(kv.table(1).empty());
  CHECK_FALSE(kv.reserve(1, 19));
  CHECK(kv.take_moves().size() == 5);
  // No slot is left for another: it is closed.
  run(kv, 2, counting(100, 4));
  CHECK_FALSE(kv.preempt(2));
  CHECK_FALSE(kv.contains(2));
  const KvAdmission back = kv.admit(1, counting(0, 19), "");
  REQUIRE(admitted(back));
  CHECK(back.cached_positions == 18);
  CHECK(kv.take_moves().size() == 5);
  CHECK(kv.stats().swap_used == 0);
  REQUIRE(kv.reserve(1, 19));
  kv.commit(1, counting(18, 1));
  CHECK(kv.audit() == "");
  // Released while swapped: the slots are free again.
  CHECK(kv.preempt(1));
  kv.release(1);
  CHECK(kv.stats().swap_used == 0);
  CHECK(kv.audit() == "");
}

}  // namespace sluice
