// What scripted sequences say, and what each must say when nobody is in its way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/schedule/scheduler.hpp"

namespace sluice::test {

inline constexpr TokenId kEndToken = 0;

/// A function of all tokens so far: any wrong, missing or doubled token changes what follows.
inline TokenId script(std::span<const TokenId> tokens) {
  std::uint64_t h = 0x9E3779B97F4A7C15;
  for (const TokenId token : tokens) {
    h = (h ^ static_cast<std::uint32_t>(token)) * 0xD6E8FEB86659FD93;
    h ^= h >> 32;
  }
  return static_cast<TokenId>(h % 97);
}

/// What is left of a sequence's output with the whole machine to itself.
inline std::vector<TokenId> uncontended(const SequenceRequest& request, Position context_length) {
  std::vector<TokenId> tokens = request.prompt;
  std::vector<TokenId> output;
  while (static_cast<Position>(output.size()) < request.max_new_tokens &&
         (context_length == 0 || static_cast<Position>(tokens.size()) < context_length)) {
    const TokenId token = script(tokens);
    if (token < 0) break;
    tokens.push_back(token);
    output.push_back(token);
    if (std::ranges::find(request.end_tokens, token) != request.end_tokens.end()) break;
  }
  return output;
}

}  // namespace sluice::test
