// What the executor drives: weights on some device, a KV pool, and steps.
//
// A step is one batch. Each slice feeds some consecutive tokens of one sequence; their K and V
// go to the positions that the slice's block table names. The logits of a sequence depend only
// on its own tokens: not on the other slices, the chunking, the block numbers or the threads.
//
// Encoder-decoder models: the first positions of a sequence stand for the encoder's input, the
// decoder's tokens come after them. At the positions of the input each layer of the decoder keeps
// the K and V that its cross-attention reads; they are computed from the whole input, once, and
// never change. At the others it keeps those of its self-attention.
//
// Worked example, block_size 16: sequence 7 has 20 positions computed in blocks {4, 9} and its
// 21st token (position 20) is fed: first_position 20, tokens {id}, blocks {4, 9}, sample true.
// K and V of position 20 go to block 9, row 4.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/device_usage.hpp"
#include "engine/base/kv_group.hpp"
#include "engine/base/types.hpp"
#include "engine/sampling/sampling_params.hpp"

namespace sluice {

/// One sequence's part of a step.
struct StepSlice {
  SequenceId sequence = 0;
  Position first_position = 0;  ///< position of tokens[0]; everything before it is in the KV
  std::vector<TokenId> tokens;  ///< at least 1
  std::vector<BlockId> blocks;  ///< table covering at least first_position + tokens.size()
  /// Tables of the groups after the first, as long; empty with one group. Entries of blocks that
  /// no token of the slice sees may be kNoBlock.
  std::vector<std::vector<BlockId>> more_blocks{};
  bool sample = false;  ///< draw a token from the logits of the last position
  std::shared_ptr<const SamplingParams> sampling;  ///< set when `sample`
  Position num_generated = 0;                      ///< output tokens before the one drawn here
  /// All tokens up to and including tokens.back(), of an encoder-decoder model those of the
  /// decoder; filled only when sampling->needs_history().
  std::vector<TokenId> history;
  /// Leading positions of the sequence that stand for the encoder's input; 0: no encoder.
  Position encoder_positions = 0;
  /// The whole input, encoder_positions tokens. Set as long as not all of them are in the KV; then
  /// `tokens` reaches at least to the end of the input.
  std::vector<TokenId> encoder_input{};

  const std::vector<BlockId>& table(std::size_t group) const {
    return group == 0 ? blocks : more_blocks[group - 1];
  }
  /// Leading tokens that belong to the encoder's input.
  Position num_encoder_tokens() const { return std::max(encoder_positions - first_position, 0); }
  /// Tokens that the decoder reads.
  Position num_decoder_tokens() const {
    return static_cast<Position>(tokens.size()) - num_encoder_tokens();
  }
};

struct StepBatch {
  std::uint64_t number = 0;  ///< counts steps of one engine
  std::vector<StepSlice> slices;
  /// Done before anything is computed, one after the other in this order.
  std::vector<BlockMove> moves{};
  Position num_tokens() const {
    Position n = 0;
    for (const StepSlice& slice : slices) n += static_cast<Position>(slice.tokens.size());
    return n;
  }
};

struct SliceResult {
  SequenceId sequence = 0;
  std::optional<SampledToken> token;  ///< set when the slice asked for one and nothing failed
  std::string error;                  ///< not empty: this sequence failed (e.g. NaN logits)
};

/// Same order as the batch's slices. A failed step ends only the sequences it names; `fatal`
/// means that the backend can't go on (device lost) and has to be replaced.
struct StepResult {
  std::uint64_t number = 0;
  std::vector<SliceResult> slices;
  std::chrono::nanoseconds duration{0};
  std::string fatal;
};

struct KvPoolShape {
  std::int32_t num_blocks = 0;   ///< of the first group
  std::int32_t block_size = 16;  ///< positions in a block
  KvVisibility visibility{};     ///< of the first group
  std::int32_t swap_slots = 0;   ///< of the first group
  std::vector<KvGroup> more_groups{};
  std::vector<std::int32_t> group_of_layer{};  ///< empty: all layers are in the first group
  std::string swap_file{};                     ///< where the swap slots are; empty: in main memory

  std::size_t num_groups() const { return 1 + more_groups.size(); }
  KvGroup group(std::size_t index) const {
    return index == 0 ? KvGroup{num_blocks, visibility, swap_slots} : more_groups[index - 1];
  }
  std::size_t group_of(std::size_t layer) const {
    return layer < group_of_layer.size() ? static_cast<std::size_t>(group_of_layer[layer]) : 0;
  }
};

struct BackendMemory {
  std::size_t weights_bytes = 0;  ///< mapped or allocated for weights
  std::size_t kv_bytes = 0;       ///< allocated for the pool
  std::size_t scratch_bytes = 0;  ///< activations, logits, work buffers at their peak so far
  std::size_t swap_bytes = 0;     ///< allocated for swap slots in main memory
};

/// Not thread-safe: one thread (the executor) drives it.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Allocates the KV pool; drops an earlier one. Throws Error: kDoesNotFit, kIo (swap file).
  virtual void allocate_pool(const KvPoolShape& shape) = 0;

  /// Runs one batch. Does not throw. Block numbers and tokens must be in range (the scheduler's
  /// promise; checked, and a breach is reported as that slice's error).
  virtual StepResult step(const StepBatch& batch) noexcept = 0;

  /// The same in two parts: begin_step() may return while a device is still at work, and needs the
  /// batch no longer; end_step() gives the result when it is there within `patience`. Between the
  /// two nothing else is called. A backend that computes on its caller's thread runs the whole step
  /// in the first part.
  virtual void begin_step(const StepBatch& batch) noexcept { finished_ = step(batch); }
  virtual std::optional<StepResult> end_step(std::chrono::microseconds) noexcept {
    return std::exchange(finished_, std::nullopt);
  }

  virtual BackendMemory memory() const = 0;
  /// For logs and `inspect`, e.g. "CPU, AVX-512, 2 threads".
  virtual std::string description() const = 0;
  /// Says how busy the devices are that it computes on, for metrics; empty where there is nothing
  /// beside the CPU. What is returned may be called from any thread, also after the backend's end,
  /// must not wait for a step and must not throw.
  virtual DeviceProbe device_probe() const { return {}; }

 private:
  std::optional<StepResult> finished_;
};

}  // namespace sluice
