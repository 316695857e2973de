#include "engine/backend/slice_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace sluice {
namespace {

std::string check_tokens(const StepSlice& slice, const SliceLimits& limits,
                         std::size_t tokens_before) {
  const auto limit = static_cast<std::size_t>(limits.max_batch_tokens);
  if (slice.tokens.empty()) return "the slice has no tokens";
  if (slice.tokens.size() > limit)
    return fmt::format("the slice has {} tokens, more than a step can take ({})",
                       slice.tokens.size(), limit);
  if (tokens_before + slice.tokens.size() > limit)
    return fmt::format(
        "the step has no room for the slice: {} tokens before it, {} in it, {} at "
        "most",
        tokens_before, slice.tokens.size(), limit);
  for (const TokenId token : slice.tokens)
    if (token < 0 || token >= limits.vocab_size)
      return fmt::format("the token {} is outside the vocabulary of {}", token, limits.vocab_size);
  return {};
}

std::string check_blocks(const StepSlice& slice, const SliceLimits& limits) {
  if (limits.pool.num_blocks == 0) return "no KV pool has been allocated";
  if (slice.first_position < 0)
    return fmt::format("the first position {} is negative", slice.first_position);
  const std::int64_t end =
      std::int64_t{slice.first_position} + static_cast<std::int64_t>(slice.tokens.size());
  if (limits.positions > 0 && end > limits.positions)
    return fmt::format("the position {} is beyond the {} that the model knows", end - 1,
                       limits.positions);
  const std::int64_t needed = (end + limits.pool.block_size - 1) / limits.pool.block_size;
  if (static_cast<std::int64_t>(slice.blocks.size()) < needed)
    return fmt::format("the block table covers {} positions where {} are needed",
                       static_cast<std::int64_t>(slice.blocks.size()) * limits.pool.block_size,
                       end);
  // Blocks before the first token's window are never read; they may have been freed.
  const std::int64_t first_seen =
      limits.window == 0
          ? 0
          : std::max(std::int64_t{0}, std::int64_t{slice.first_position} + 1 - limits.window);
  for (auto i = static_cast<std::size_t>(first_seen / limits.pool.block_size);
       i < static_cast<std::size_t>(needed); ++i)
    if (slice.blocks[i] < 0 || slice.blocks[i] >= limits.pool.num_blocks)
      return fmt::format("the block {} is outside the pool of {}", slice.blocks[i],
                         limits.pool.num_blocks);
  return {};
}

std::string check_sampling(const StepSlice& slice) {
  if (!slice.sample) return {};
  if (slice.sampling == nullptr) return "the slice asks for a token without sampling parameters";
  if (!slice.sampling->needs_history()) return {};
  const std::size_t end = static_cast<std::size_t>(slice.first_position) + slice.tokens.size();
  if (slice.history.size() != end)
    return fmt::format("the penalties need all {} tokens so far, but {} were given", end,
                       slice.history.size());
  return {};
}

}  // namespace

std::string check_slice(const StepSlice& slice, const SliceLimits& limits,
                        std::size_t tokens_before) {
  if (std::string error = check_tokens(slice, limits, tokens_before); !error.empty()) return error;
  if (std::string error = check_blocks(slice, limits); !error.empty()) return error;
  return check_sampling(slice);
}

}  // namespace sluice
