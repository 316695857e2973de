// What turns pieces of text into tokens once text has been normalized and split.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/types.hpp"

namespace sluice {

/// Immutable for its users; safe to use from any thread.
class PieceModel {
 public:
  virtual ~PieceModel() = default;

  /// Appends the ids of each piece, in order. Never throws on any bytes.
  virtual void encode(std::span<const std::string_view> pieces,
                      std::vector<TokenId>& out) const = 0;

  /// E.g. "byte-level BPE".
  virtual std::string description() const = 0;
};

/// Remembers of each token whether a piece of exactly its text becomes that token alone. This is
/// found out when first asked; most words of a text are such tokens, and need no merging then.
class WholeTokens {
 public:
  enum class State : std::uint8_t { kUnknown, kWhole, kSplit };

  explicit WholeTokens(std::size_t num_tokens)
      : states_(std::make_unique<std::atomic<State>[]>(num_tokens)) {}

  State state(TokenId id) const {
    return states_[static_cast<std::size_t>(id)].load(std::memory_order_relaxed);
  }
  /// Threads that learn the same thing at the same time write the same value.
  void learn(TokenId id, bool whole) const {
    states_[static_cast<std::size_t>(id)].store(whole ? State::kWhole : State::kSplit,
                                                std::memory_order_relaxed);
  }

 private:
  std::unique_ptr<std::atomic<State>[]> states_;
};

}  // namespace sluice
