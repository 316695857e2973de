// warm_up(): the largest steps once, before anybody waits for one.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "actors/engine.hpp"
#include "engine/base/error.hpp"
#include "engine/model/encoder_config.hpp"

namespace sluice {
namespace {

/// Sequences that decode in the largest step that is tried.
constexpr std::int32_t kDecodes = 64;

/// Gives each slice blocks of its own, the same numbers in every group.
class SliceMaker {
 public:
  SliceMaker(std::int32_t block_size, std::size_t num_groups)
      : block_size_(block_size), num_groups_(num_groups) {}

  /// With an encoder, `input` of the tokens are its input.
  StepSlice make(Position tokens, bool sample, Position input = 0) {
    StepSlice slice;
    slice.sequence = ++sequences_;
    slice.tokens.assign(static_cast<std::size_t>(tokens), 0);
    for (Position covered = 0; covered < tokens; covered += block_size_) {
      slice.blocks.push_back(blocks_++);
    }
    slice.more_blocks.assign(num_groups_ - 1, slice.blocks);
    slice.encoder_positions = input;
    slice.encoder_input.assign(static_cast<std::size_t>(input), 0);
    slice.sample = sample;
    if (sample) slice.sampling = std::make_shared<const SamplingParams>();
    return slice;
  }
  std::int32_t blocks() const { return blocks_; }

 private:
  std::int32_t block_size_;
  std::size_t num_groups_;
  SequenceId sequences_ = 0;
  BlockId blocks_ = 0;
};

void run(Backend& backend, const StepBatch& batch) {
  const StepResult result = backend.step(batch);
  std::string fault = result.fatal;
  for (const SliceResult& slice : result.slices) {
    if (fault.empty()) fault = slice.error;
  }
  if (!fault.empty()) throw Error(ErrorCode::kInternal, "The warm-up failed: " + fault + ".");
}

}  // namespace

WarmUp warm_up(PreparedEngine& prepared) {
  const auto start = std::chrono::steady_clock::now();
  const MemoryPlan& plan = prepared.plan;
  KvPoolShape pool = pool_for(kv_manager_options(plan));
  const Position budget = std::max(prepared.config.plan.max_batch_tokens, 1);

  // One prompt as long as a step can be, or several where the context is shorter.
  SliceMaker slices(plan.block_size, pool.num_groups());
  StepBatch prefill;
  prefill.number = 1;
  const Position input = longest_input(prepared.model_config, budget, plan.context);
  for (Position left = budget; left > 0;) {
    const Position tokens = std::min({left, plan.context - input, plan.max_chunk});
    left -= tokens;
    prefill.slices.push_back(slices.make(input + tokens, true, input));
  }
  StepBatch decode;
  decode.number = 2;
  for (std::int32_t i = 0; i < std::min(budget, kDecodes); ++i) {
    // With an encoder each has the shortest input before it.
    const Position before = std::min(input, 1);
    decode.slices.push_back(slices.make(before + 1, true, before));
  }
  pool.num_blocks = slices.blocks();
  pool.swap_slots = 0;
  pool.group_of_layer = plan.group_of_layer;
  for (KvGroup& group : pool.more_groups) group = {slices.blocks(), group.visibility, 0};

  auto backend = std::make_shared<std::unique_ptr<Backend>>(prepared.make_backend());
  (*backend)->allocate_pool(pool);
  run(**backend, prefill);
  run(**backend, decode);

  PlanRequest request = prepared.config.plan;
  request.measured_scratch_bytes = std::max<std::size_t>((*backend)->memory().scratch_bytes, 1);
  request.context = plan.context;
  request.memory_limit_bytes = plan.limit_bytes;  // what is left now lacks what was just taken
  prepared.plan = make_plan(prepared.model_config, plan.weights_bytes, request);
  // The first engine gets this backend; after a failure another is made.
  prepared.make_backend = [backend, make = std::move(prepared.make_backend)] {
    return *backend ? std::move(*backend) : make();
  };
  return {request.measured_scratch_bytes, std::chrono::steady_clock::now() - start};
}

}  // namespace sluice
