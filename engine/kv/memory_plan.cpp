#include "engine/kv/memory_plan.hpp"

#include <algorithm>
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

std::int64_t blocks_for(std::int64_t positions, std::int64_t block_size) {
  return (positions + block_size - 1) / block_size;
}

constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();

/// Settings may be absurd; a message about them must still be right in its direction.
std::size_t product_or_most(std::size_t a, std::size_t b) {
  std::size_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}

/// Says what is needed, how much is lacking, and what would fit instead.
[[noreturn]] void does_not_fit(const MemoryPlan& plan, std::int64_t blocks_that_fit,
                               std::int64_t sequences) {
  const std::size_t usable = plan.limit_bytes - plan.headroom_bytes;
  const std::int64_t per_sequence = blocks_for(plan.context, plan.block_size);
  const std::size_t block_bytes =
      plan.kv_bytes_per_token * static_cast<std::size_t>(plan.block_size);
  const std::size_t pool = product_or_most(
      product_or_most(static_cast<std::size_t>(per_sequence), static_cast<std::size_t>(sequences)),
      block_bytes);
  const std::size_t fixed = plan.weights_bytes + plan.scratch_bytes;
  const std::size_t needed = fixed + std::min(pool, kMost - fixed);
  std::string message = "The model with " + count(sequences, "sequence", "sequences") + " of " +
                        std::to_string(plan.context) + " positions needs " + format_bytes(needed) +
                        " (weights " + format_bytes(plan.weights_bytes) + ", scratch " +
                        format_bytes(plan.scratch_bytes) + ", KV pool " + format_bytes(pool) +
                        "), which is " + format_bytes(needed - usable) + " more than the " +
                        format_bytes(usable) + " that a limit of " +
                        format_bytes(plan.limit_bytes) + " leaves after its headroom; ";

  std::vector<std::string> ways;
  if (const std::int64_t fewer = blocks_that_fit / per_sequence; fewer > 0) {
    ways.push_back(count(fewer, "sequence", "sequences") + " of " + std::to_string(plan.context) +
                   " positions");
  }
  if (const std::int64_t shorter = blocks_that_fit / sequences * plan.block_size; shorter > 0) {
    ways.push_back(count(sequences, "sequence", "sequences") + " of " + std::to_string(shorter) +
                   " positions");
  }
  if (ways.empty() && blocks_that_fit > 0) {
    ways.push_back("1 sequence of " + std::to_string(blocks_that_fit * plan.block_size) +
                   " positions");
  }
  if (ways.empty()) {
    const std::size_t least = static_cast<std::size_t>(
        static_cast<double>(plan.weights_bytes + plan.scratch_bytes + block_bytes) *
        static_cast<double>(plan.limit_bytes) /
        static_cast<double>(std::max<std::size_t>(usable, 1)));
    message += "no context fits beside the weights: give it at least " + format_bytes(least) +
               " of memory or use a smaller model.";
  } else {
    message += "what fits: " + ways.front() + (ways.size() > 1 ? ", or " + ways.back() : "") + ".";
  }
  throw Error(ErrorCode::kDoesNotFit, message);
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
  plan.scratch_bytes = estimate_scratch_bytes(
      config, request.max_batch_tokens,
      std::min<Position>(request.max_batch_tokens, kMaxSampledRows), request.threads);
  plan.kv_type_k = request.kv_type_k;
  plan.kv_type_v = request.kv_type_v;
  plan.kv_layers = request.kv_layers;
  const KvTypes types{plan.kv_type_k, plan.kv_type_v, plan.kv_layers};
  plan.kv_bytes_per_token_layer = kv_layer_bytes({plan.kv_type_k, plan.kv_type_v, {}}, config, 0);
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer)
    plan.kv_bytes_per_token += kv_layer_bytes(types, config, layer);
  plan.block_size = request.block_size;
  plan.context = request.context > 0 ? request.context : config.context_length;

  const std::size_t fixed = plan.headroom_bytes + plan.weights_bytes + plan.scratch_bytes;
  const std::size_t for_pool = plan.limit_bytes > fixed ? plan.limit_bytes - fixed : 0;
  const std::size_t block_bytes =
      plan.kv_bytes_per_token * static_cast<std::size_t>(request.block_size);
  const auto blocks_that_fit = static_cast<std::int64_t>(std::min<std::size_t>(
      for_pool / block_bytes, static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())));

  const std::int64_t at_least = std::max(request.sequences, 1);
  bool cut = false;
  if (blocks_that_fit < at_least * blocks_for(plan.context, request.block_size)) {
    const std::int64_t fitting = blocks_that_fit / at_least * request.block_size;
    // Only a context that nobody asked for may become smaller.
    if (request.context > 0 || fitting < std::min(kSmallestUsefulContext, config.context_length)) {
      does_not_fit(plan, blocks_that_fit, at_least);
    }
    plan.context = static_cast<Position>(fitting);
    cut = true;
  }
  const std::int64_t per_sequence = blocks_for(plan.context, request.block_size);
  const std::int64_t fitting = blocks_that_fit / per_sequence;
  const std::int64_t wanted =
      request.sequences > 0 ? request.sequences : std::int64_t{request.default_sequences};
  plan.sequences = static_cast<std::int32_t>(std::min(wanted, fitting));
  plan.num_blocks = static_cast<std::int32_t>(plan.sequences * per_sequence);
  plan.kv_pool_bytes = static_cast<std::size_t>(plan.num_blocks) * block_bytes;
  plan.max_context_one_sequence = static_cast<Position>(std::min(
      std::int64_t{plan.num_blocks} * request.block_size, std::int64_t{config.context_length}));
  if (cut || plan.sequences < wanted) {
    plan.binding = PlanLimit::kMemory;
  } else if (plan.context == config.context_length) {
    plan.binding = PlanLimit::kModelContext;
  }
  return plan;
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
