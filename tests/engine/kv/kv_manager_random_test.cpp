// Random operations on the KV manager and on a naive one: every answer has to be the same.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "engine/kv/kv_manager.hpp"
#include "tests/engine/kv/naive_kv.hpp"

namespace sluice {
namespace {

constexpr std::int32_t kBlockSize = 4;

KvManagerOptions one_group(int run) {
  KvManagerOptions options;
  options.num_blocks = 12 + 9 * (run % 4);
  options.block_size = kBlockSize;
  options.admission_watermark = 0.05;
  options.prefix_cache = run % 5 != 4;
  options.swap_slots = run % 3 == 0 ? 0 : 5 * (run % 4);
  return options;
}

/// Full and windowed layers side by side, or windowed ones alone.
KvManagerOptions many_groups(int run) {
  KvManagerOptions options = one_group(run);
  options.max_chunk = 6;
  options.more_groups.push_back({9 + run % 9, {7 + run % 4, 0}, options.swap_slots});
  options.more_groups.push_back({14, {9, 3 + run % 4}, options.swap_slots});
  if (run % 2 == 1) options.visibility = {11, 5};
  return options;
}

class RandomRun {
 public:
  RandomRun(std::uint32_t seed, const KvManagerOptions& options)
      : random_(seed), options_(options), kv_(options), naive_(options, 20) {}

  void operate() {
    const int kind = below(100);
    if (kind < 18) {
      admit();
    } else if (kind < 45) {
      reserve();
    } else if (kind < 72) {
      commit();
    } else if (kind < 80) {
      rollback();
    } else if (kind < 86) {
      const SequenceId id = any();
      if (kv_.preempt(id) != naive_.preempt(id)) fault = "one swaps and the other does not";
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
  std::string compare() {
    if (std::string broken = kv_.audit(); !broken.empty()) return broken;
    const std::vector<BlockMove> moves = kv_.take_moves();
    if (moves != std::exchange(naive_.moves, {})) return "moves differ";
    naive_.waiting_moves.insert(naive_.waiting_moves.end(), moves.begin(), moves.end());
    const KvStats stats = kv_.stats();
    std::size_t free = 0;
    std::size_t cached = 0;
    std::size_t free_slots = 0;
    for (const auto& group : naive_.groups) {
      free += naive_.num_free(group);
      cached += group.cached.size();
      free_slots += group.free_slots.size();
    }
    if (stats.free != static_cast<std::int32_t>(free)) return "free counts differ";
    if (stats.cached != static_cast<std::int32_t>(cached)) return "cached counts differ";
    if (stats.swap_total - stats.swap_used != static_cast<std::int32_t>(free_slots))
      return "free swap slots differ";
    if (stats.sequences + stats.swapped_sequences !=
        static_cast<std::int32_t>(naive_.sequences.size()))
      return "sequences differ";
    if (stats.used + stats.free != stats.total) return "blocks are lost";
    for (const auto& [id, sequence] : naive_.sequences) {
      if (kv_.is_swapped(id) != sequence.swapped) return "one is swapped and the other not";
      for (std::size_t g = 0; g < naive_.groups.size(); ++g) {
        if (!sequence.swapped && !std::ranges::equal(kv_.table(id, g), sequence.tables[g]))
          return "tables differ";
      }
      if (naive_.waiting_moves.empty() && !naive_.reads_right(sequence))
        return "a sequence would read another's tokens";
    }
    return {};
  }

  std::string fault;
  std::uint64_t admitted_with_hits = 0;
  std::uint64_t forks = 0;
  std::uint64_t resumed = 0;
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
    const auto known = naive_.sequences.find(id);
    if (known != naive_.sequences.end() && known->second.swapped) return resume(id);
    std::vector<TokenId> prompt = tokens(1 + below(below(40) == 0 ? 200 : 40));
    std::string salt = below(4) == 0 ? "other" : "";
    KvFork fork;
    const auto parent = naive_.sequences.find(any());
    if (parent != naive_.sequences.end() && !parent->second.tokens.empty() && below(4) > 0) {
      const std::vector<TokenId>& done = parent->second.tokens;
      const auto common = static_cast<std::ptrdiff_t>(
          done.size() -
          static_cast<std::size_t>(below(std::min(3, static_cast<int>(done.size())))));
      prompt.insert(prompt.begin(), done.begin(), done.begin() + common);
      salt = parent->second.salt;
      fork = {parent->first, static_cast<Position>(common)};
    }
    const KvAdmission a = kv_.admit(id, prompt, salt, fork);
    const KvAdmission b = naive_.admit(id, prompt, salt, fork);
    if (a.verdict != b.verdict) fault = "verdicts differ";
    if (a.cached_positions != b.cached_positions) fault = "cached positions differ";
    if (a.cached_positions > 0) ++admitted_with_hits;
    if (a.cached_positions % kBlockSize != 0) ++forks;
    if (a.verdict == KvAdmission::Verdict::kAdmitted) prompts_[id] = prompt;
  }

  void resume(SequenceId id) {
    std::vector<TokenId> all = naive_.sequences.at(id).tokens;
    all.push_back(below(2));
    const KvAdmission a = kv_.admit(id, all, naive_.sequences.at(id).salt);
    const KvAdmission b = naive_.admit(id, all, naive_.sequences.at(id).salt, {});
    if (a.verdict != b.verdict) fault = "verdicts of a resumption differ";
    if (a.cached_positions != b.cached_positions) fault = "resumed positions differ";
    if (a.verdict == KvAdmission::Verdict::kAdmitted) ++resumed;
  }

  void reserve() {
    const SequenceId id = any();
    const auto positions =
        static_cast<Position>(below(below(10) == 0 ? 4 * options_.num_blocks : 50));
    if (kv_.reserve(id, positions) != naive_.reserve(id, positions))
      fault = "one reserves and the other does not";
  }

  void commit() {
    const SequenceId id = any();
    const auto found = naive_.sequences.find(id);
    if (found == naive_.sequences.end() || found->second.swapped) {
      kv_.commit(id, tokens(3));
      return;
    }
    const std::size_t done = found->second.tokens.size();
    const std::size_t room = found->second.writable - done;
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
  KvManagerOptions options_;
  KvManager kv_;
  test::NaiveKv naive_;
  std::map<SequenceId, std::vector<TokenId>> prompts_;
};

}  // namespace

TEST_CASE("random operations give what a naive KV manager gives") {
  const bool is_long = std::getenv("SLUICE_LONG") != nullptr;
  const int runs = is_long ? 100 : 10;
  const int operations = 100'000;
  std::uint64_t hits = 0;
  std::uint64_t forks = 0;
  std::uint64_t resumed = 0;
  KvStats sum;
  for (int run = 0; run < runs; ++run) {
    RandomRun random(static_cast<std::uint32_t>(run) + 1,
                     run % 2 == 0 ? one_group(run / 2) : many_groups(run / 2));
    for (int i = 0; i < operations; ++i) {
      random.operate();
      const std::string fault = random.fault.empty() ? random.compare() : random.fault;
      if (!fault.empty()) FAIL("run " << run << ", operation " << i << ": " << fault);
    }
    hits += random.admitted_with_hits;
    forks += random.forks;
    resumed += random.resumed;
    sum.evictions += random.stats().evictions;
    sum.copies += random.stats().copies;
    sum.trimmed += random.stats().trimmed;
  }
  CAPTURE(hits, forks, resumed, sum.evictions, sum.copies, sum.trimmed);
  // The run was worth something only if it met what is hard.
  CHECK(hits > 1000);
  CHECK(forks > 1000);
  CHECK(resumed > 1000);
  CHECK(sum.evictions > 1000);
  CHECK(sum.copies > 1000);
  CHECK(sum.trimmed > 1000);
}

}  // namespace sluice
