// A backend without a model, for tests and for measuring everything around the kernels.
//
// It checks what a real backend relies on (positions continue, tables cover them) and draws
// tokens from a script, a pure function of the sequence's tokens so far.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "engine/backend/backend.hpp"

namespace sluice {

struct ScriptedBackendOptions {
  /// Next token after `tokens` (prompt and output so far). The backend keeps, per KV slot, the
  /// token stored there, and rebuilds `tokens` from the block table: a wrong table, a block
  /// shared by mistake or a stale slot changes the output or fails the slice.
  /// A negative token fails the slice. When all groups of the pool have windows, `tokens` are
  /// those that the first group sees.
  std::function<TokenId(std::span<const TokenId> tokens)> next_token{};
  std::chrono::nanoseconds per_token{0};  ///< slept for every token fed
  std::chrono::nanoseconds per_step{0};   ///< slept in every step
  /// Counts steps down; when it reaches 0 the step returns `fatal`, once: the counter is -1
  /// afterwards, so that a backend made anew with the same options goes on. Negative: never.
  std::shared_ptr<std::atomic<int>> steps_until_fatal{};
};

std::unique_ptr<Backend> make_scripted_backend(ScriptedBackendOptions options);

}  // namespace sluice
