// One sequence as the scheduler sees it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace sluice {

/// Why a sequence draws nothing although it may have credit.
enum class Hold {
  kNone,
  kMaximum,   ///< it has max_new_tokens; a larger maximum or resume_after_verdict() lifts it
  kEndToken,  ///< it drew an end token; resume_after_verdict() lifts it
  kNoRoom,    ///< context or pool is full; nothing lifts it
};

struct Sequence {
  SequenceId id = 0;
  std::uint64_t arrival = 0;    ///< order of submission; kept through preemption
  std::vector<TokenId> tokens;  ///< prompt, then output
  Position num_prompt = 0;
  Position num_encoder = 0;  ///< leading tokens of the prompt that are an encoder's input
  std::shared_ptr<const SamplingParams> sampling;
  Position max_new_tokens = 0;
  std::vector<TokenId> end_tokens;
  std::string salt;
  std::uint64_t sample_group = 0;
  std::int32_t priority = 0;
  std::int32_t credit = 0;
  Hold hold = Hold::kNone;
  std::chrono::steady_clock::time_point submitted;
  bool started = false;     ///< was admitted before, or continues another engine's output
  std::int32_t passes = 0;  ///< requests of higher priority that came later and went before

  // While running (holding blocks):
  bool running = false;
  Position computed = 0;        ///< positions in the KV
  std::uint64_t last_step = 0;  ///< the last step it took part in
  std::optional<std::chrono::steady_clock::time_point> idle_since;

  /// Prompt positions found in the prefix cache at the first admission.
  std::optional<Position> cached;

  Position total() const { return static_cast<Position>(tokens.size()); }
  Position num_output() const { return total() - num_prompt; }
  /// Tokens not yet in the KV: at least 1, since the last one drawn has not been fed.
  Position remaining() const { return total() - computed; }
  std::span<const TokenId> encoder_input() const {
    return std::span(tokens).first(static_cast<std::size_t>(num_encoder));
  }
  /// Tokens of that input whose positions are not in the KV. They go in one step.
  Position encoder_remaining() const { return std::max(num_encoder - computed, 0); }
  bool may_draw() const { return credit > 0 && hold == Hold::kNone; }
  /// Tokens that can be fed now. Feeding the last one makes a draw, so it waits for the right
  /// to draw.
  Position feedable() const { return remaining() - (may_draw() ? 0 : 1); }
  /// What the last token drawn means by itself.
  Hold hold_after_last() const {
    if (num_output() >= max_new_tokens) return Hold::kMaximum;
    const bool may_end = num_output() > 0 && num_output() >= sampling->min_new_tokens;
    const bool is_end = std::ranges::find(end_tokens, tokens.back()) != end_tokens.end();
    return may_end && is_end ? Hold::kEndToken : Hold::kNone;
  }
  bool decoding() const { return remaining() == 1 && num_output() > 0; }
};

}  // namespace sluice
