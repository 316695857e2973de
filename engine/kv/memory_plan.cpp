#include "engine/kv/memory_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/model/decoder_scratch.hpp"

namespace sluice {
namespace {

/// Steps draw for at most so many sequences (the scheduler's own limit is lower by default).
constexpr std::int32_t kMaxSampledRows = 64;
/// A context that is cut down to memory is not cut below this; then the plan is refused.
constexpr Position kSmallestUsefulContext = 256;

std::string count(std::int64_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check(const ModelConfig& config, const PlanRequest& request) {
  if (config.num_layers <= 0 || config.num_kv_heads <= 0 || config.head_dim <= 0 ||
      config.context_length <= 0) {
    invalid("The model's shape has a layer, head or context count that is not positive.");
  }
  if (request.context < 0) invalid("The context must not be negative.");
  if (request.context > config.context_length) {
    invalid("A context of " + std::to_string(request.context) + " positions is more than the " +
            std::to_string(config.context_length) +
            " that the model was made for; ask for at most " +
            std::to_string(config.context_length) + ".");
  }
  if (request.sequences < 0 || (request.sequences == 0 && request.default_sequences <= 0)) {
    invalid("The number of sequences must be at least 1.");
  }
  if (request.block_size <= 0 || request.block_size > 4096) {
    invalid("The KV block size must lie between 1 and 4096 positions, not " +
            std::to_string(request.block_size) + ".");
  }
  if (request.max_batch_tokens <= 0) invalid("A step must have room for at least 1 token.");
  if (!(request.headroom >= 0.0 && request.headroom < 1.0)) {
    invalid("The headroom is a share of the memory: it must be at least 0 and less than 1.");
  }
  check_kv_types({request.kv_type_k, request.kv_type_v, request.kv_layers}, config);
}

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

/// The groups of a model's layers with these types.
PoolSizing sizing_of(const ModelConfig& config, const KvTypes& types, const PlanRequest& request) {
  PoolSizing sizing;
  sizing.block_size = request.block_size;
  sizing.step_tokens = request.max_batch_tokens;
  for (const KvLayerGroup& group : kv_layer_groups(config)) {
    PlanGroup entry;
    entry.visibility = group.visibility;
    entry.num_layers = static_cast<std::int32_t>(group.layers.size());
    for (const std::int32_t layer : group.layers) {
      entry.bytes_per_token += kv_layer_bytes(types, config, layer);
    }
    sizing.groups.push_back(entry);
  }
  return sizing;
}

/// What would fit instead of `sequences` of the planned context into a pool of `for_pool` bytes.
std::vector<std::string> what_fits(const MemoryPlan& plan, const PoolSizing& sizing,
                                   std::size_t for_pool, std::int64_t sequences) {
  std::vector<std::string> ways;
  if (const auto fewer = sizing.most_sequences(plan.context, for_pool, sequences); fewer > 0) {
    ways.push_back(count(fewer, "sequence", "sequences") + " of " + std::to_string(plan.context) +
                   " positions");
  }
  if (const Position shorter = sizing.longest_context(sequences, for_pool, plan.context);
      shorter > 0) {
    ways.push_back(count(sequences, "sequence", "sequences") + " of " + std::to_string(shorter) +
                   " positions");
  }
  const Position alone = sizing.longest_context(1, for_pool, plan.context);
  if (ways.empty() && alone > 0) {
    ways.push_back("1 sequence of " + std::to_string(alone) + " positions");
  }
  return ways;
}

/// Memory of which `needed` bytes are left after the headroom, as --memory takes it: "26GiB",
/// "5310MiB", rounded up.
std::string limit_for(std::size_t needed, double headroom) {
  constexpr double kMiB = 1024.0 * 1024.0;
  constexpr double kGiB = 1024.0 * kMiB;
  const double limit = static_cast<double>(needed) / (1.0 - headroom) + 1.0;
  const bool large = limit >= 8.0 * kGiB;
  const double units = std::ceil(limit / (large ? kGiB : kMiB));
  if (units > 1.0e9) return format_bytes(kMost);
  return std::to_string(static_cast<std::int64_t>(units)) + (large ? "GiB" : "MiB");
}

/// Says what is needed, how much is lacking, and what would fit instead. `smaller`: the pool in
/// 8 bits.
[[noreturn]] void does_not_fit(const MemoryPlan& plan, const PoolSizing& sizing,
                               const PoolSizing& smaller, std::int64_t sequences, double headroom) {
  const std::size_t usable = plan.limit_bytes - plan.headroom_bytes;
  const std::size_t pool = sizing.bytes(sequences, plan.context);
  const std::size_t fixed = plan.total_bytes();
  const std::size_t for_pool = usable > fixed ? usable - fixed : 0;
  const std::size_t needed = fixed + std::min(pool, kMost - fixed);
  std::string message = "The model with " + count(sequences, "sequence", "sequences") + " of " +
                        std::to_string(plan.context) + " positions needs " + format_bytes(needed) +
                        " (weights " + format_bytes(plan.weights_bytes) + ", scratch " +
                        format_bytes(plan.scratch_bytes) + ", KV pool " + format_bytes(pool);
  if (fixed > plan.weights_bytes + plan.scratch_bytes) {
    message += ", swap space " + format_bytes(plan.swap_bytes);
  }
  message += "), which is " + format_bytes(needed - usable) + " more than the " +
             format_bytes(usable) + " that a limit of " + format_bytes(plan.limit_bytes) +
             " leaves after its headroom; ";
  const std::vector<std::string> ways = what_fits(plan, sizing, for_pool, sequences);
  if (ways.empty()) {
    const std::size_t least = fixed + sizing.bytes(1, sizing.block_size);
    message += "no context fits beside the weights: give it at least " +
               limit_for(least, headroom) + " of memory or use a smaller model.";
  } else {
    message += "what fits: " + ways.front() + (ways.size() > 1 ? ", or " + ways.back() : "");
    if (smaller.bytes(sequences, plan.context) <= for_pool) {
      message += ", or all of it with --kv-type q8_0";
    }
    message += "; all of it as it is fits with --memory " + limit_for(needed, headroom) + ".";
  }
  throw Error(ErrorCode::kDoesNotFit, message);
}

/// Takes pool and swap space for what was decided.
void size_groups(MemoryPlan& plan, const PoolSizing& sizing) {
  plan.groups = sizing.groups;
  plan.kv_pool_bytes = sizing.bytes(plan.sequences, plan.context);
  for (PlanGroup& group : plan.groups) {
    group.num_blocks =
        static_cast<std::int32_t>(sizing.blocks(group, plan.sequences, plan.context));
    // Each group gets the share of the swap space that it has of the pool.
    group.swap_slots = static_cast<std::int32_t>(static_cast<double>(group.num_blocks) *
                                                 static_cast<double>(plan.swap_bytes) /
                                                 static_cast<double>(plan.kv_pool_bytes));
    const std::int64_t held = sizing.blocks_held(group, plan.context) * plan.block_size;
    plan.kv_bytes_per_sequence +=
        group.bytes_per_token *
        static_cast<std::size_t>(std::min<std::int64_t>(plan.context, held));
  }
  plan.num_blocks = plan.groups.front().num_blocks;
}

}  // namespace

MemoryPlan make_plan(const ModelConfig& config, std::size_t weights_bytes,
                     const PlanRequest& request) {
  check(config, request);
  MemoryPlan plan;
  plan.limit_bytes =
      request.memory_limit_bytes > 0 ? request.memory_limit_bytes : available_memory_bytes();
  plan.headroom_bytes =
      static_cast<std::size_t>(static_cast<double>(plan.limit_bytes) * request.headroom);
  plan.weights_bytes = weights_bytes;
  plan.scratch_measured = request.measured_scratch_bytes > 0;
  plan.scratch_bytes =
      plan.scratch_measured ? request.measured_scratch_bytes
      : request.device_scratch_bytes > 0
          ? request.device_scratch_bytes
          : estimate_scratch_bytes(config, request.max_batch_tokens,
                                   std::min<Position>(request.max_batch_tokens, kMaxSampledRows),
                                   request.threads);
  plan.kv_type_k = request.kv_type_k;
  plan.kv_type_v = request.kv_type_v;
  plan.kv_layers = request.kv_layers;
  const KvTypes types{plan.kv_type_k, plan.kv_type_v, plan.kv_layers};
  plan.kv_bytes_per_token_layer = kv_layer_bytes({plan.kv_type_k, plan.kv_type_v, {}}, config, 0);
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer)
    plan.kv_bytes_per_token += kv_layer_bytes(types, config, layer);
  plan.block_size = request.block_size;
  plan.swap_bytes = request.swap_bytes;
  plan.swap_file = request.swap_file;
  plan.on_device = request.on_device;
  plan.max_chunk = std::clamp(request.prefill_chunk, 1, request.max_batch_tokens);
  Position longest = config.context_length;
  if (const Position allowed = longest_under(config, request.budget); allowed > 0) {
    longest = std::min(longest, allowed);
  }
  plan.context = std::min(request.context > 0 ? request.context : longest, longest);

  const PoolSizing sizing = sizing_of(config, types, request);
  const std::vector<KvLayerGroup> layer_groups = kv_layer_groups(config);
  if (layer_groups.size() > 1)
    plan.group_of_layer.resize(static_cast<std::size_t>(config.num_layers));
  for (std::size_t g = 1; g < layer_groups.size(); ++g) {
    for (const std::int32_t layer : layer_groups[g].layers) {
      plan.group_of_layer[static_cast<std::size_t>(layer)] = static_cast<std::int32_t>(g);
    }
  }

  const std::size_t fixed = plan.headroom_bytes + plan.total_bytes();
  const std::size_t for_pool = plan.limit_bytes > fixed ? plan.limit_bytes - fixed : 0;
  const std::int64_t at_least = std::max(request.sequences, 1);
  bool cut = false;
  if (sizing.bytes(at_least, plan.context) > for_pool) {
    const Position fitting = sizing.longest_context(at_least, for_pool, plan.context);
    // Only a context that nobody asked for may become smaller.
    if (request.context > 0 || fitting < std::min(kSmallestUsefulContext, longest)) {
      const PoolSizing smaller = sizing_of(config, {DType::kQ8_0, DType::kQ8_0, {}}, request);
      does_not_fit(plan, sizing, smaller, at_least, request.headroom);
    }
    plan.context = fitting;
    cut = true;
  }
  const std::int64_t wanted =
      request.sequences > 0 ? request.sequences : std::int64_t{request.default_sequences};
  plan.sequences = static_cast<std::int32_t>(sizing.most_sequences(plan.context, for_pool, wanted));
  size_groups(plan, sizing);
  plan.max_context_one_sequence = sizing.longest_alone(plan.groups, longest);
  if (cut || plan.sequences < wanted) {
    plan.binding = PlanLimit::kMemory;
  } else if (plan.context == config.context_length) {
    plan.binding = PlanLimit::kModelContext;
  }
  return plan;
}

KvManagerOptions kv_manager_options(const MemoryPlan& plan) {
  KvManagerOptions options;
  options.num_blocks = plan.num_blocks;
  options.block_size = plan.block_size;
  options.max_chunk = plan.max_chunk;
  options.admission_watermark = kAdmissionWatermark;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const PlanGroup& group = plan.groups[g];
    if (g == 0) {
      options.visibility = group.visibility;
      options.swap_slots = group.swap_slots;
    } else {
      options.more_groups.push_back({group.num_blocks, group.visibility, group.swap_slots});
    }
  }
  return options;
}

std::size_t estimate_scratch_bytes(const ModelConfig& config, Position max_batch_tokens,
                                   std::int32_t max_sampled_rows, std::int32_t threads) {
  if (threads <= 0) {
    // As many as there can be: the backend takes one a physical core, which is at most that.
    threads = static_cast<std::int32_t>(std::max(std::thread::hardware_concurrency(), 1U));
  }
  return decoder_scratch_bytes(config, max_batch_tokens, max_sampled_rows, threads);
}

}  // namespace sluice
