#include "engine/kv/kv_manager.hpp"

#include <catch2/catch.hpp>
#include <numeric>

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

/// Admits, reserves and commits all of `tokens`; the positions found in the cache.
Position run(KvManager& kv, SequenceId id, const std::vector<TokenId>& tokens,
             std::string_view salt = "") {
  const KvAdmission admission = kv.admit(id, tokens, salt);
  REQUIRE(admitted(admission));
  REQUIRE(kv.reserve(id, static_cast<Position>(tokens.size())));
  kv.commit(id, std::span(tokens).subspan(static_cast<std::size_t>(admission.cached_positions)));
  REQUIRE(kv.audit() == "");
  return admission.cached_positions;
}

}  // namespace

TEST_CASE("the worked example of the header") {
  KvManager kv({.num_blocks = 64});
  const std::vector<TokenId> prompt = counting(0, 40);
  CHECK(kv.admit(1, prompt, "").cached_positions == 0);
  REQUIRE(kv.reserve(1, 40));
  CHECK(kv.table(1).size() == 3);
  kv.commit(1, prompt);
  CHECK(kv.stats().used == 3);
  kv.release(1);
  CHECK(kv.stats().used == 0);
  CHECK(kv.stats().free == 64);
  CHECK(kv.stats().cached == 2);
  const KvAdmission again = kv.admit(2, prompt, "");
  CHECK(again.cached_positions == 32);
  CHECK(kv.table(2).size() == 2);
  CHECK(kv.stats().prefix_queries_positions == 80);
  CHECK(kv.stats().prefix_hits_positions == 32);
}

TEST_CASE("a prompt is never cached whole") {
  KvManager kv({.num_blocks = 8, .block_size = 4});
  run(kv, 1, counting(0, 8));
  CHECK(run(kv, 2, counting(0, 8)) == 4);
  CHECK(run(kv, 3, counting(0, 9)) == 8);
}

TEST_CASE("other salts and other beginnings share nothing") {
  KvManager kv({.num_blocks = 32, .block_size = 4});
  run(kv, 1, counting(0, 12), "alice");
  CHECK(run(kv, 2, counting(0, 12), "bob") == 0);
  CHECK(run(kv, 3, counting(0, 12), "alice") == 8);
  // The second block alone is the same: what comes before it is not.
  std::vector<TokenId> other = counting(0, 12);
  other[0] = 99;
  CHECK(run(kv, 4, other, "alice") == 0);
}

TEST_CASE("without a prefix cache nothing is kept") {
  KvManager kv({.num_blocks = 8, .block_size = 4, .prefix_cache = false});
  run(kv, 1, counting(0, 12));
  kv.release(1);
  CHECK(kv.stats().cached == 0);
  CHECK(run(kv, 2, counting(0, 12)) == 0);
}

TEST_CASE("a live sequence shares its full blocks") {
  KvManager kv({.num_blocks = 8, .block_size = 4});
  run(kv, 1, counting(0, 10));
  run(kv, 2, counting(0, 10));
  CHECK(kv.stats().used == 4);
  CHECK(kv.table(1)[0] == kv.table(2)[0]);
  CHECK(kv.table(1)[1] == kv.table(2)[1]);
  CHECK(kv.table(1)[2] != kv.table(2)[2]);
  CHECK(kv.block_map()[static_cast<std::size_t>(kv.table(1)[0])].owners == 2);
  kv.release(1);
  CHECK(kv.stats().used == 3);
  kv.release(2);
  CHECK(kv.stats().used == 0);
}

TEST_CASE("admission keeps the watermark and what was promised") {
  KvManager kv({.num_blocks = 20, .block_size = 4, .admission_watermark = 0.1});
  // Alone: no watermark.
  CHECK(admitted(kv.admit(1, counting(0, 80), "")));
  kv.release(1);
  CHECK(kv.admit(1, counting(0, 81), "").verdict == KvAdmission::Verdict::kNever);
  // 10 blocks promised to the first although none is taken, 2 of watermark: 8 are left.
  CHECK(admitted(kv.admit(2, counting(100, 40), "")));
  CHECK(kv.admit(3, counting(200, 33), "").verdict == KvAdmission::Verdict::kNotNow);
  CHECK(admitted(kv.admit(3, counting(200, 32), "")));
  // An open sequence is not opened again.
  CHECK(kv.admit(3, counting(200, 4), "").verdict == KvAdmission::Verdict::kNotNow);
  CHECK(kv.audit() == "");
}

TEST_CASE("reserve takes all or nothing") {
  KvManager kv({.num_blocks = 4, .block_size = 4});
  REQUIRE(admitted(kv.admit(1, counting(0, 4), "")));
  CHECK(kv.reserve(1, 9));
  CHECK(kv.table(1).size() == 3);
  CHECK(kv.reserve(1, 9));
  CHECK_FALSE(kv.reserve(1, 17));
  CHECK(kv.table(1).size() == 3);
  CHECK_FALSE(kv.reserve(2, 1));
  CHECK(kv.table(2).empty());
  kv.commit(2, counting(0, 1));
  kv.release(2);
  CHECK(kv.rollback(2, 0) == 0);
}

TEST_CASE("the least recently used content goes first and the beginning of a prompt last") {
  KvManager kv({.num_blocks = 6, .block_size = 4});
  run(kv, 1, counting(0, 12));
  kv.release(1);
  run(kv, 2, counting(100, 8));
  kv.release(2);
  CHECK(kv.stats().cached == 5);
  run(kv, 3, counting(200, 8));  // 1 empty block and 1 eviction: the end of the first prompt
  CHECK(kv.stats().evictions == 1);
  kv.release(3);
  CHECK(run(kv, 4, counting(0, 13)) == 8);
}

TEST_CASE("of equal contents one is findable and a later one takes its place") {
  KvManager kv({.num_blocks = 5, .block_size = 4});
  REQUIRE(admitted(kv.admit(1, counting(0, 5), "")));
  REQUIRE(admitted(kv.admit(2, counting(0, 5), "")));
  REQUIRE(kv.reserve(1, 4));
  REQUIRE(kv.reserve(2, 4));
  kv.commit(1, counting(0, 4));
  kv.commit(2, counting(0, 4));
  const BlockId second = kv.table(2)[0];
  kv.release(1);
  CHECK(kv.stats().cached == 1);
  // The findable one is evicted while its double lives on ...
  REQUIRE(kv.reserve(2, 20));
  CHECK(kv.stats().evictions == 1);
  kv.release(2);
  // ... which is findable when it is free.
  const KvAdmission third = kv.admit(3, counting(0, 5), "");
  CHECK(third.cached_positions == 4);
  REQUIRE(kv.table(3).size() == 1);
  CHECK(kv.table(3)[0] == second);
  CHECK(kv.audit() == "");
}

TEST_CASE("a block that is written again can not be found") {
  KvManager kv({.num_blocks = 8, .block_size = 4});
  run(kv, 1, counting(0, 8));
  CHECK(kv.rollback(1, 6) == 6);
  CHECK(kv.audit() == "");
  kv.commit(1, counting(50, 2));
  CHECK(run(kv, 2, counting(0, 9)) == 4);
  std::vector<TokenId> changed = counting(0, 9);
  changed[6] = 50;
  changed[7] = 51;
  CHECK(run(kv, 3, changed) == 8);
}

TEST_CASE("a shared block that a rollback cuts is copied before it is written") {
  KvManager kv({.num_blocks = 8, .block_size = 4});
  run(kv, 1, counting(0, 9));
  run(kv, 2, counting(0, 9));
  const BlockId shared = kv.table(1)[1];
  CHECK(kv.rollback(1, 6) == 6);
  CHECK(kv.table(1).size() == 2);
  CHECK(kv.table(1)[1] == shared);
  CHECK(kv.audit() == "");
  REQUIRE(kv.reserve(1, 7));
  CHECK(kv.table(1)[1] != shared);
  CHECK(kv.take_moves() ==
        std::vector<BlockMove>{{BlockMove::Kind::kCopy, 0, shared, kv.table(1)[1]}});
  CHECK(kv.audit() == "");
  kv.release(1);
  kv.release(2);
  CHECK(run(kv, 3, counting(0, 9)) == 8);
}

TEST_CASE("a rollback gives back what was reserved and not computed") {
  KvManager kv({.num_blocks = 8, .block_size = 4});
  run(kv, 1, counting(0, 5));
  REQUIRE(kv.reserve(1, 20));
  CHECK(kv.stats().used == 5);
  CHECK(kv.rollback(1, 9) == 5);
  CHECK(kv.stats().used == 3);
  CHECK(kv.rollback(1, -3) == 0);
  CHECK(kv.stats().used == 0);
  CHECK(kv.audit() == "");
}

TEST_CASE("reset forgets everything") {
  KvManager kv({.num_blocks = 8, .block_size = 4});
  run(kv, 1, counting(0, 9));
  kv.reset();
  CHECK_FALSE(kv.contains(1));
  CHECK(kv.stats().used == 0);
  CHECK(kv.stats().cached == 0);
  CHECK(run(kv, 1, counting(0, 9)) == 0);
}

}  // namespace sluice
