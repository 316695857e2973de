// What an evaluation asks of a model: the logits after each token of a window of text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/base/types.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// One sequence at a time. Feeding position 0 starts a new one.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  virtual std::size_t vocab_size() const = 0;
  /// Longest sequence.
  virtual Position context() const = 0;
  /// Bytes that hold the K and V of context() positions.
  virtual std::size_t kv_bytes() const = 0;

  /// Feeds tokens at the positions first_position, first_position + 1, ...; everything before was
  /// fed already. Returns the logits after the last `wanted` of them, [wanted x vocab_size], valid
  /// until the next call. Throws Error when a token can't be fed.
  virtual std::span<const float> feed(std::span<const TokenId> tokens, Position first_position,
                                      std::size_t wanted) = 0;
};

/// A model on the CPU with KV for one sequence of `context` positions, fed in steps of at most
/// `options.max_batch_tokens`. Throws as make_cpu_backend and Backend::allocate_pool.
std::unique_ptr<TokenModel> make_token_model(std::shared_ptr<const ModelSource> source,
                                             const ModelConfig& config,
                                             const CpuBackendOptions& options, Position context);

}  // namespace sluice
