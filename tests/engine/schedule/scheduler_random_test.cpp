// Random load on a pool that is far too small: whatever happens, every sequence says exactly
// what it says alone.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>

#include "tests/engine/schedule/rig.hpp"

namespace sluice::test {
namespace {

constexpr Position kContext = 60;

/// A script in which some sequences fail on the way.
TokenId failing_script(std::span<const TokenId> tokens) {
  const TokenId token = script(tokens);
  return token == 13 && tokens.size() % 3 == 0 ? -1 : token;
}

class RandomLoad {
 public:
  RandomLoad(std::uint32_t seed, bool only_new_grants)
      : random_(seed), rig_(make_options(seed, only_new_grants)) {
    // Everything may happen between any two messages.
    rig_.interfere = [this] {
      if (below(6) == 0) act();
    };
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      rig_.now += std::chrono::milliseconds(below(20));
      act();
      rig_.step();
      check_outputs();
      end_some();
    }
  }

  /// No new load, credit for all: everyone comes to an end, in a bounded number of steps.
  void drain() {
    rig_.interfere = [] {};
    std::size_t work = 0;
    for (auto& [id, stream] : rig_.streams) {
      if (stream.removed) continue;
      rig_.credit(id, 1000);
      work += kContext;
    }
    for (std::size_t i = 0; i <= 3 * work && open() > 0; ++i) {
      rig_.step();
      check_outputs();
      end_finished();
    }
    CHECK(open() == 0);
    CHECK(rig_.kv.stats().used == 0);
    CHECK(rig_.scheduler.all().empty());
    CHECK_FALSE(rig_.scheduler.has_work());
  }

  SchedulerStats stats() const { return rig_.scheduler.stats(); }
  KvStats kv_stats() const { return rig_.kv.stats(); }
  std::size_t whole() const { return whole_; }
  std::size_t failed() const { return failed_; }

 private:
  static RigOptions make_options(std::uint32_t seed, bool only_new_grants) {
    RigOptions options;
    options.scheduler.token_budget = 6 + static_cast<Position>(seed % 40);
    options.scheduler.prefill_chunk = 1 + static_cast<Position>(seed % 17);
    options.scheduler.max_running = 3 + static_cast<std::int32_t>(seed % 9);
    options.scheduler.context_length = kContext;
    options.scheduler.idle_preempt_after = std::chrono::milliseconds(200);
    // Just enough for one sequence of full length, and a little more in other runs.
    options.kv.num_blocks = 15 + static_cast<std::int32_t>(seed % 3) * 12;
    options.kv.block_size = 4;
    options.kv.prefix_cache = seed % 4 != 0;
    if (seed % 3 == 1) options.kv.swap_slots = 12;
    if (seed % 5 > 2) {
      // A layer group with a window and one with a budget, just large enough too.
      options.kv.max_chunk = options.scheduler.prefill_chunk;
      const std::int32_t chunk = (options.scheduler.prefill_chunk + 3) / 4;
      options.kv.more_groups.push_back({5 + chunk, {9, 0}, options.kv.swap_slots});
      options.kv.more_groups.push_back({7 + chunk, {8, 6}, options.kv.swap_slots});
    }
    options.scheduler.max_passes = 5;
    options.next_token = failing_script;
    options.only_new_grants = only_new_grants;
    return options;
  }

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }

  void act() {
    const int kind = below(10);
    if (kind < 3 && rig_.scheduler.stats().waiting < 20) {
      submit();
    } else if (kind < 7) {
      if (Rig::Stream* stream = any_open()) rig_.credit(stream->request.id, 1 + below(6));
    } else if (kind < 8 && below(4) == 0) {
      if (Rig::Stream* stream = any_open()) rig_.remove(stream->request.id);
    } else if (kind < 9) {
      if (Rig::Stream* stream = any_open()) {
        stream->request.max_new_tokens += below(5);
        rig_.scheduler.set_max_new_tokens(stream->request.id, stream->request.max_new_tokens);
      }
    }
  }

  void submit() {
    std::vector<TokenId> prompt = prompt_of(static_cast<SequenceId>(below(3)), 12);
    prompt.resize(static_cast<std::size_t>(1 + below(12)));
    const int own = below(30);
    for (int i = 0; i < own; ++i) prompt.push_back(1 + below(1000));
    SequenceRequest asked = request(next_id_++, std::move(prompt), 1 + below(40), below(5));
    if (below(2) == 0) asked.end_tokens = {kEndToken, 1, 2};
    if (below(3) == 0) asked.salt = "other";
    if (below(4) == 0) {
      SamplingParams sampling;
      sampling.presence_penalty = 1.0F;
      asked.sampling = std::make_shared<const SamplingParams>(sampling);
    }
    asked.priority = below(3);
    const int samples = below(4) == 0 ? 2 + below(3) : 1;
    if (samples > 1) asked.sample_group = asked.id;
    for (int i = 0; i < samples; ++i) {
      if (i > 0) asked.id = next_id_++;
      // As other seeds do: the samples part from their first token on.
      if (i > 0) asked.max_new_tokens = 1 + below(40);
      CHECK(rig_.submit(asked) == RejectReason::kNone);
    }
  }

  Rig::Stream* any_open() {
    std::vector<Rig::Stream*> open;
    for (auto& [id, stream] : rig_.streams) {
      if (!stream.removed && stream.failure.empty()) open.push_back(&stream);
    }
    if (open.empty()) return nullptr;
    return open[static_cast<std::size_t>(below(static_cast<int>(open.size())))];
  }

  std::size_t open() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        rig_.streams, [](const auto& entry) { return !entry.second.removed; }));
  }

  /// The whole output of a stream as it is asked for now.
  std::vector<TokenId> expected(const Rig::Stream& stream) const {
    std::vector<TokenId> tokens = stream.request.prompt;
    std::vector<TokenId> output;
    while (static_cast<Position>(output.size()) < stream.request.max_new_tokens &&
           static_cast<Position>(tokens.size()) < kContext) {
      const TokenId token = failing_script(tokens);
      if (token < 0) break;
      tokens.push_back(token);
      output.push_back(token);
      const auto& ends = stream.request.end_tokens;
      if (std::ranges::find(ends, token) != ends.end()) break;
    }
    return output;
  }

  /// Whatever has come so far is the beginning of what has to come.
  void check_outputs() {
    for (const auto& [id, stream] : rig_.streams) {
      if (stream.removed || stream.output.size() == checked_[id]) continue;
      checked_[id] = stream.output.size();
      const std::vector<TokenId> all = expected(stream);
      REQUIRE(stream.output.size() <= all.size());
      REQUIRE(std::equal(stream.output.begin(), stream.output.end(), all.begin()));
    }
  }

  void end_finished() {
    for (auto& [id, stream] : rig_.streams) {
      if (stream.removed) continue;
      const bool failed = !stream.failure.empty();
      if (!failed && stream.output != expected(stream)) continue;
      if (!failed && would_fail_next(stream)) continue;
      CHECK(stream.output == expected(stream));
      const auto total = stream.request.prompt.size() + stream.output.size();
      CHECK(stream.ends_of_room == (total >= kContext ? 1 : 0));
      failed ? ++failed_ : ++whole_;
      rig_.remove(id);
    }
  }

  bool would_fail_next(const Rig::Stream& stream) const {
    std::vector<TokenId> tokens = stream.request.prompt;
    tokens.insert(tokens.end(), stream.output.begin(), stream.output.end());
    const auto& ends = stream.request.end_tokens;
    const bool ended =
        !stream.output.empty() && std::ranges::find(ends, stream.output.back()) != ends.end();
    return !ended && static_cast<Position>(tokens.size()) < kContext &&
           static_cast<Position>(stream.output.size()) < stream.request.max_new_tokens &&
           failing_script(tokens) < 0;
  }

  void end_some() {
    if (below(3) == 0) end_finished();
  }

  std::mt19937 random_;
  Rig rig_;
  SequenceId next_id_ = 1;
  std::map<SequenceId, std::size_t> checked_;
  std::size_t whole_ = 0;
  std::size_t failed_ = 0;
};

}  // namespace

TEST_CASE("under random load every sequence says what it says alone") {
  const bool is_long = std::getenv("SLUICE_LONG") != nullptr;
  const std::uint32_t runs = is_long ? 2000 : 60;
  std::size_t whole = 0;
  std::size_t failed = 0;
  std::uint64_t preemptions = 0;
  KvStats kv;
  for (std::uint32_t seed = 1; seed <= runs; ++seed) {
    INFO("seed " << seed);
    RandomLoad load(seed, seed % 2 == 0);
    load.run(250);
    load.drain();
    whole += load.whole();
    failed += load.failed();
    preemptions += load.stats().preemptions;
    kv.prefix_hits_positions += load.kv_stats().prefix_hits_positions;
    kv.copies += load.kv_stats().copies;
    kv.trimmed += load.kv_stats().trimmed;
    kv.swapped_out += load.kv_stats().swapped_out;
  }
  CAPTURE(whole, failed, preemptions, kv.prefix_hits_positions, kv.copies, kv.trimmed,
          kv.swapped_out);
  CHECK(whole > runs * 10);
  CHECK(failed > runs);
  CHECK(preemptions > runs * 5);
  CHECK(kv.prefix_hits_positions > runs * 50);
  CHECK(kv.copies > runs);
  CHECK(kv.trimmed > runs * 10);
  CHECK(kv.swapped_out > runs * 5);
}

/// Each needs 40 positions in the end, 10 blocks of 4; the pool has 50. Gives the KV statistics.
KvStats play_sixteen_with_room_for_five(std::int32_t swap_slots) {
  RigOptions options;
  options.kv = {.num_blocks = 50, .block_size = 4, .swap_slots = swap_slots};
  options.scheduler.prefill_chunk = 8;
  Rig rig(options);
  for (SequenceId id = 1; id <= 16; ++id) rig.submit(request(id, prompt_of(id, 10), 30));
  int steps = 0;
  std::size_t done = 0;
  while (done < 16) {
    REQUIRE(rig.step());
    REQUIRE(++steps < 16 * 60);
    // The oldest sequence is in every step from its admission to its end.
    const auto oldest =
        std::ranges::find_if(rig.streams, [](const auto& e) { return !e.second.removed; });
    CHECK(std::ranges::find(rig.last_batch.slices, oldest->first, &StepSlice::sequence) !=
          rig.last_batch.slices.end());
    for (auto& [id, stream] : rig.streams) {
      if (stream.removed || stream.output.size() < 30) continue;
      rig.remove(id);
      ++done;
    }
  }
  for (const auto& [id, stream] : rig.streams) {
    CHECK(stream.output == uncontended(stream.request, 0));
    CHECK(stream.ends_of_room == 0);
    CHECK(stream.failure.empty());
  }
  CHECK(rig.scheduler.stats().preemptions > 0);
  CHECK(rig.scheduler.stats().generated_tokens == 16 * 30);
  if (swap_slots > 100) CHECK(rig.scheduler.stats().prompt_tokens == 16 * 10);  // nothing twice
  CHECK(rig.kv.stats().used == 0);
  CHECK(rig.kv.stats().swap_used == 0);
  return rig.kv.stats();
}

TEST_CASE("sixteen sequences with room for five end correctly and the oldest always moves") {
  CHECK(play_sixteen_with_room_for_five(0).swapped_out == 0);
  CHECK(play_sixteen_with_room_for_five(160).swapped_out > 0);
  // A swap area that is soon full: what has no room there is computed again.
  CHECK(play_sixteen_with_room_for_five(7).swapped_out > 0);
}

}  // namespace sluice::test
