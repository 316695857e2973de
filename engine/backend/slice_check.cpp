#include "engine/backend/slice_check.hpp"

#include <fmt/format.h>

#include <vector>

#include <algorithm>
#include <cstdint>

namespace sluice {
namespace {

std::string check_tokens(const StepSlice& slice, const SliceLimits& limits,
                         std::size_t tokens_before) {
  const auto limit = static_cast<std::size_t>(limits.max_batch_tokens);
  if (slice.tokens.empty()) return "the slice has no tokens";
  const auto count = static_cast<std::size_t>(slice.num_decoder_tokens());
  if (count > limit)
    return fmt::format("the slice has {} tokens, more than a step can take ({})", count, limit);
  if (tokens_before + count > limit)
    return fmt::format(
        "the step has no room for the slice: {} tokens before it, {} in it, {} at "
        "most",
        tokens_before, count, limit);
  for (const auto* tokens : {&slice.tokens, &slice.encoder_input})
    for (const TokenId token : *tokens)
      if (token < 0 || token >= limits.vocab_size)
        return fmt::format("the token {} is outside the vocabulary of {}", token,
                           limits.vocab_size);
  return {};
}

/// Is the input there exactly when it is needed, and does the slice reach beyond it?
std::string check_encoder(const StepSlice& slice, const SliceLimits& limits) {
  const Position input = slice.encoder_positions;
  if (!limits.encoder) {
    if (input == 0 && slice.encoder_input.empty()) return {};
    return "the slice has an input for an encoder, but the model has none";
  }
  if (input < 1) return "the slice has no input for the encoder";
  if (input > limits.max_batch_tokens)
    return fmt::format("the encoder's input has {} tokens, more than a step can take ({})", input,
                       limits.max_batch_tokens);
  const std::int64_t missing = std::int64_t{input} - slice.first_position;
  if (missing <= 0) return {};
  if (slice.encoder_input.size() != static_cast<std::size_t>(input))
    return fmt::format("the encoder needs its whole input of {} tokens, but {} were given", input,
                       slice.encoder_input.size());
  if (static_cast<std::int64_t>(slice.tokens.size()) < missing)
    return fmt::format("the slice ends {} tokens before the end of the encoder's input",
                       missing - static_cast<std::int64_t>(slice.tokens.size()));
  return {};
}

/// Covers `end` positions, and every block that some token of the slice sees is in the pool.
std::string check_table(const StepSlice& slice, const SliceLimits& limits, std::size_t index,
                        std::int64_t end) {
  const std::int64_t block_size = limits.pool.block_size;
  const KvGroup group = limits.pool.group(index);
  const std::vector<BlockId>& table = slice.table(index);
  const std::int64_t needed = (end + block_size - 1) / block_size;
  if (static_cast<std::int64_t>(table.size()) < needed)
    return fmt::format("the block table covers {} positions where {} are needed",
                       static_cast<std::int64_t>(table.size()) * block_size, end);
  // Blocks before the first token's window are never read; they may have been freed.
  KvVisibility sees = group.visibility;
  if (sees.window == 0 && limits.pool.num_groups() == 1) sees.window = limits.window;
  const std::int64_t seen_from = sees.first_in_window(slice.first_position) / block_size;
  const std::int64_t kept = (sees.keep_first + block_size - 1) / block_size;
  for (std::int64_t i = 0; i < needed; ++i) {
    const BlockId block = table[static_cast<std::size_t>(i)];
    if (i >= kept && i < seen_from) continue;
    if (block < 0 || block >= group.num_blocks)
      return fmt::format("the block {} is outside the pool of {}", block, group.num_blocks);
  }
  return {};
}

std::string check_blocks(const StepSlice& slice, const SliceLimits& limits) {
  if (limits.pool.num_blocks == 0) return "no KV pool has been allocated";
  const std::int64_t end =
      std::int64_t{slice.first_position} + static_cast<std::int64_t>(slice.tokens.size());
  if (limits.positions > 0 && end > limits.positions)
    return fmt::format("the position {} is beyond the {} that the model knows", end - 1,
                       limits.positions);
  if (slice.more_blocks.size() + 1 != limits.pool.num_groups())
    return fmt::format("the slice has {} block tables where the pool has {} groups of layers",
                       slice.more_blocks.size() + 1, limits.pool.num_groups());
  for (std::size_t g = 0; g < limits.pool.num_groups(); ++g)
    if (std::string error = check_table(slice, limits, g, end); !error.empty()) return error;
  return {};
}

std::string check_sampling(const StepSlice& slice) {
  if (!slice.sample) return {};
  if (slice.num_decoder_tokens() < 1)
    return "a token is to be drawn before the decoder has started";
  if (slice.sampling == nullptr) return "the slice asks for a token without sampling parameters";
  if (!slice.sampling->needs_history()) return {};
  const std::size_t end = static_cast<std::size_t>(slice.first_position) + slice.tokens.size();
  const std::size_t needed = end - static_cast<std::size_t>(slice.encoder_positions);
  if (slice.history.size() != needed)
    return fmt::format("the penalties need all {} tokens so far, but {} were given", needed,
                       slice.history.size());
  return {};
}

}  // namespace

std::string check_slice(const StepSlice& slice, const SliceLimits& limits,
                        std::size_t tokens_before) {
  if (slice.first_position < 0)
    return fmt::format("the first position {} is negative", slice.first_position);
  if (std::string error = check_encoder(slice, limits); !error.empty()) return error;
  if (std::string error = check_tokens(slice, limits, tokens_before); !error.empty()) return error;
  if (std::string error = check_blocks(slice, limits); !error.empty()) return error;
  return check_sampling(slice);
}

}  // namespace sluice
