// Random operations on the KV manager and on a naive one: every answer has to be the same.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "engine/kv/kv_manager.hpp"
#include "tests/engine/kv/naive_kv.hpp"

namespace sluice {
namespace {

constexpr std::int32_t kBlockSize = 4;

class RandomRun {
 public:
  RandomRun(std::uint32_t seed, std::int32_t num_blocks)
      : random_(seed),
        num_blocks_(num_blocks),
        kv_({.num_blocks = num_blocks, .block_size = kBlockSize, .admission_watermark = 0.05}),
        naive_(num_blocks, kBlockSize, (num_blocks + 19) / 20) {}

  void operate() {
    const int kind = below(100);
    if (kind < 18) {
      admit();
    } else if (kind < 45) {
      reserve();
    } else if (kind < 75) {
      commit();
    } else if (kind < 84) {
      rollback();
    } else if (below(4000) == 0) {
      kv_.reset();
      naive_.reset();
    } else {
      const SequenceId id = any();
      kv_.release(id);
      naive_.release(id);
    }
  }

  /// Empty when both agree on everything that can be seen.
  std::string compare() const {
    if (std::string broken = kv_.audit(); !broken.empty()) return broken;
    const KvStats stats = kv_.stats();
    if (stats.free != naive_.num_free()) return "free counts differ";
    if (stats.cached != static_cast<std::int32_t>(naive_.cached.size()))
      return "cached counts differ";
    if (stats.sequences != static_cast<std::int32_t>(naive_.sequences.size()))
      return "sequences differ";
    if (stats.used + stats.free != num_blocks_) return "blocks are lost";
    for (const auto& [id, sequence] : naive_.sequences) {
      if (!std::ranges::equal(kv_.table(id), sequence.table)) return "tables differ";
      if (naive_.read(id) != sequence.tokens) return "a sequence would read another's tokens";
    }
    return {};
  }

  std::string fault;
  std::uint64_t admitted_with_hits = 0;
  KvStats stats() const { return kv_.stats(); }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  SequenceId any() { return static_cast<SequenceId>(below(9)); }

  /// Few different tokens and long common beginnings, so that prompts share blocks often.
  std::vector<TokenId> tokens(int count) {
    std::vector<TokenId> tokens;
    const TokenId family = below(3);
    const int common = below(30);
    for (int i = 0; i < count; ++i) tokens.push_back(i < common ? family : below(2));
    return tokens;
  }

  void admit() {
    const SequenceId id = any();
    const std::vector<TokenId> prompt = tokens(1 + below(below(40) == 0 ? 200 : 40));
    const std::string salt = below(4) == 0 ? "other" : "";
    const KvAdmission a = kv_.admit(id, prompt, salt);
    const KvAdmission b = naive_.admit(id, prompt, salt);
    if (a.verdict != b.verdict) fault = "verdicts differ";
    if (a.cached_positions != b.cached_positions) fault = "cached positions differ";
    if (a.blocks != b.blocks) fault = "cached blocks differ";
    if (a.cached_positions > 0) ++admitted_with_hits;
    prompts_[id] = prompt;
  }

  void reserve() {
    const SequenceId id = any();
    const auto positions = static_cast<Position>(below(below(10) == 0 ? 4 * num_blocks_ : 50));
    if (kv_.reserve(id, positions) != naive_.reserve(id, positions))
      fault = "reserved blocks differ";
  }

  void commit() {
    const SequenceId id = any();
    const auto found = naive_.sequences.find(id);
    if (found == naive_.sequences.end()) {
      kv_.commit(id, tokens(3));
      return;
    }
    const std::size_t done = found->second.tokens.size();
    const std::size_t room = found->second.table.size() * kBlockSize - done;
    std::vector<TokenId> next = tokens(below(static_cast<int>(room) + 1));
    // Mostly what the prompt says, as a prefill does.
    for (std::size_t i = 0; i < next.size() && done + i < prompts_[id].size(); ++i) {
      next[i] = prompts_[id][done + i];
    }
    kv_.commit(id, next);
    if (!naive_.commit(id, next)) fault = "a shared or findable block was written";
  }

  void rollback() {
    const SequenceId id = any();
    const auto positions = static_cast<Position>(below(40));
    if (kv_.rollback(id, positions) != naive_.rollback(id, positions)) fault = "rollbacks differ";
  }

  std::mt19937 random_;
  std::int32_t num_blocks_;
  KvManager kv_;
  test::NaiveKv naive_;
  std::map<SequenceId, std::vector<TokenId>> prompts_;
};

}  // namespace

TEST_CASE("random operations give what a naive KV manager gives") {
  const bool is_long = std::getenv("SLUICE_LONG") != nullptr;
  const int runs = is_long ? 30 : 6;
  const int operations = 100'000;
  std::uint64_t hits = 0;
  std::uint64_t evictions = 0;
  for (int run = 0; run < runs; ++run) {
    RandomRun random(static_cast<std::uint32_t>(run) + 1, 12 + 9 * (run % 4));
    for (int i = 0; i < operations; ++i) {
      random.operate();
      const std::string fault = random.fault.empty() ? random.compare() : random.fault;
      if (!fault.empty()) FAIL("run " << run << ", operation " << i << ": " << fault);
    }
    hits += random.admitted_with_hits;
    evictions += random.stats().evictions;
  }
  // The run was worth something only if it met what is hard.
  CHECK(hits > 1000);
  CHECK(evictions > 1000);
}

}  // namespace sluice
