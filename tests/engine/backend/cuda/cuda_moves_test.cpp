// Blocks that are copied and swapped, and the order in which a device may do it.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "engine/backend/cuda/device_kv_pool.hpp"
#include "tests/engine/backend/cuda/cuda_rig.hpp"
#include "tests/support/shared_data.hpp"

using namespace sluice;
using namespace sluice::test;
using Kind = BlockMove::Kind;

namespace {

/// Contents of blocks and slots, by number.
struct Places {
  std::map<std::pair<bool, std::int32_t>, int> content;  ///< (swap slot?, number)

  int& at(bool slot, std::int32_t number) { return content[{slot, number}]; }
  std::pair<int, int*> ends(const BlockMove& move) {
    return {at(move.kind == Kind::kSwapIn, move.from), &at(move.kind == Kind::kSwapOut, move.to)};
  }
};

}  // namespace

TEST_CASE("runs of moves do at once what the moves do one after the other") {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<BlockMove> moves;
    Kind kind = Kind::kCopy;
    for (int i = 0; i < 12; ++i) {
      if (random() % 4 == 0) kind = static_cast<Kind>(random() % 3);
      moves.push_back({kind, 0, static_cast<std::int32_t>(random() % 6),
                       static_cast<std::int32_t>(random() % 6)});
      if (moves.back().kind == Kind::kCopy && moves.back().from == moves.back().to)
        moves.pop_back();
    }
    Places one_by_one;
    for (std::int32_t i = 0; i < 6; ++i) {
      one_by_one.at(false, i) = i;
      one_by_one.at(true, i) = 100 + i;
    }
    Places at_once = one_by_one;
    for (const BlockMove& move : moves) {
      const auto [value, to] = one_by_one.ends(move);
      *to = value;
    }
    std::size_t covered = 0;
    for (const MoveRun& run : DeviceKvPool::runs_of(moves)) {
      REQUIRE(run.first == covered);
      covered += run.count;
      std::vector<std::pair<int, int*>> ends;
      for (std::size_t i = run.first; i < covered; ++i) {
        REQUIRE(moves[i].kind == run.kind);
        ends.push_back(at_once.ends(moves[i]));
      }
      // Backwards: within a run no order is promised.
      for (auto it = ends.rbegin(); it != ends.rend(); ++it) *it->second = it->first;
    }
    REQUIRE(covered == moves.size());
    REQUIRE(at_once.content == one_by_one.content);
  }
}

TEST_CASE("a sequence goes on after its blocks were copied and swapped") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  const auto source = open_model(*file);
  const std::vector<TokenId> prompt{1, 403, 407, 261, 378, 370, 391, 402, 265, 260,
                                    5, 17,  33,  81,  100, 244, 300, 12,  9};
  for (const bool deferred : {false, true}) {
    if (deferred && !on_host_shim()) continue;
    CAPTURE(deferred);
    CudaRig rig(source, small_cuda_options(DType::kQ8_0), {deferred, nullptr}, 8, 8);
    RigSequence undisturbed(prompt, rig.take_blocks(48), greedy_params());
    run_all(rig.backend, {&undisturbed}, 12);

    // Blocks 0 .. 5 hold the first 20 positions or so, then they wander.
    RigSequence sequence(prompt, {0, 1, 2, 3, 4, 5}, greedy_params());
    run_all(rig.backend, {&sequence}, 4);
    StepBatch out;
    out.moves = {{Kind::kSwapOut, 0, 0, 5}, {Kind::kSwapOut, 0, 1, 2}, {Kind::kSwapOut, 0, 2, 7}};
    CHECK(rig.backend.step(out).fatal == "");
    // Something else writes to them.
    RigSequence intruder({7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24},
                         {0, 1, 2, 3}, greedy_params());
    run_all(rig.backend, {&intruder}, 3);
    StepBatch in;
    in.moves = {{Kind::kSwapIn, 0, 5, 10}, {Kind::kSwapIn, 0, 2, 0}, {Kind::kSwapIn, 0, 7, 11},
                {Kind::kCopy, 0, 10, 12},  {Kind::kCopy, 0, 0, 10},  {Kind::kCopy, 0, 12, 1}};
    sequence.table = {1, 10, 11, 3, 4, 5};
    in.slices = {sequence.slice(1, 8)};
    const StepResult result = rig.backend.step(in);
    REQUIRE(result.fatal == "");
    sequence.take(in.slices[0], result.slices[0]);
    run_all(rig.backend, {&sequence}, 12);
    CHECK(ids_of(sequence) == ids_of(undisturbed));
  }
}

TEST_CASE("a move of what the pool does not have ends the step") {
  const auto file = shared_dir("models/stories260K.gguf");
  if (!file) return;
  CudaRig rig(open_model(*file), small_cuda_options(), {}, 16, 2);
  for (const BlockMove& move :
       {BlockMove{Kind::kCopy, 0, 0, CudaRig::kBlocks}, BlockMove{Kind::kSwapOut, 0, 0, 2},
        BlockMove{Kind::kSwapIn, 0, -1, 0}, BlockMove{Kind::kCopy, 1, 0, 1}}) {
    StepBatch batch;
    batch.moves = {move};
    CHECK(rig.backend.step(batch).fatal ==
          "a block was to be moved that the KV pool does not have");
  }
}
