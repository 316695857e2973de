// The decoder graph on a CPU: tokens in, K and V into the pool, logits out.
//
//   x = scale * embedding[token] (+ position[p])
//   for each layer:  x += post(Wo attention(rope(Wq n), rope(Wk n), Wv n))   with n = norm(x)
//                    x += Wo' attention(Wq' n, K', V')                       with n = norm(x)
//                    x += post(feed_forward(n))                              with n = norm(x)
//   logits = cap(scale * Wout norm(x))
//
// Which norms, scales and caps there are is the model's configuration. In a parallel block both
// parts read the x from before the layer. K' and V' of the cross-attention come from the encoder,
// where there is one (cpu_encoder.hpp).
//
// All sequences of a step go through the matrices together, so each weight is read once a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/cpu_encoder.hpp"
#include "engine/backend/cpu_feed_forward.hpp"
#include "engine/backend/cpu_kv_pool.hpp"
#include "engine/backend/cpu_products.hpp"
#include "engine/backend/key_projection.hpp"
#include "engine/backend/mapped_memory.hpp"
#include "engine/base/types.hpp"
#include "engine/model/decoder_scratch.hpp"
#include "engine/model/decoder_weights.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/sparse_attention.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice {

/// Consecutive tokens of one sequence, checked already.
struct DecoderSlice {
  std::span<const TokenId> tokens;
  std::size_t first_position = 0;
  std::span<const BlockId> blocks;
  std::size_t first_row = 0;  ///< of the step's rows; set by the caller, ascending, no gaps
  std::span<const std::vector<BlockId>> more_blocks{};  ///< tables of the groups after the first
  std::size_t encoder_positions = 0;  ///< the first positions hold what cross-attention reads

  std::span<const BlockId> table(std::size_t group) const {
    return group == 0 ? blocks : std::span<const BlockId>(more_blocks[group - 1]);
  }
};

class CpuDecoder {
 public:
  CpuDecoder(const ModelConfig& config, DecoderWeights weights, const kernels::KernelTable& kernels,
             kernels::ThreadPool& threads, Position max_batch_tokens,
             std::int32_t max_sampled_rows);
  CpuDecoder(const CpuDecoder&) = delete;
  CpuDecoder& operator=(const CpuDecoder&) = delete;

  /// Runs the encoder: K and V of the cross-attention into the pool. Before the forward() that
  /// reads them. Each input has at most max_batch_tokens tokens.
  void encode(std::span<const EncoderInput> inputs, const CpuKvPool& pool) {
    if (!inputs.empty()) encoder_->run(inputs, pool);
  }

  /// Computes the hidden state of every row and writes K and V. At most max_batch_tokens rows.
  void forward(std::span<const DecoderSlice> slices, const CpuKvPool& pool);

  /// Logits of some rows of the last forward(), [rows.size() x vocab], valid until the next call.
  /// At most max_logits_rows() rows.
  std::span<float> logits(std::span<const std::size_t> rows);
  std::size_t max_logits_rows() const { return max_logits_rows_; }

  /// Experiments for long contexts; none by default.
  void use_experiments(const SparseAttention& sparse, KeyProjection projection) {
    sparse_ = sparse;
    projection_ = std::move(projection);
  }

  std::size_t weights_bytes() const { return weights_.bytes; }
  std::size_t scratch_bytes() const { return memory_.bytes(); }

 private:
  void embed(std::span<const DecoderSlice> slices);
  /// Where a layer keeps K and V, and through which table of a slice.
  struct LayerKv {
    kernels::KvLayer kv;
    std::size_t group = 0;
  };

  void run_layer(std::size_t index, std::span<const DecoderSlice> slices, const LayerKv& place);
  /// block = Wo attention(input).
  void attention_block(std::size_t index, const float* input, std::span<const DecoderSlice> slices,
                       const LayerKv& place);
  void cross_attention_block(const CrossAttention& cross, const float* input,
                             std::span<const DecoderSlice> slices, const LayerKv& place);
  void rotate_and_store(std::size_t index, const LayerKv& place);
  void attend(std::size_t index, std::span<const DecoderSlice> slices, const LayerKv& place);
  /// What a slice adds to `operands` is filled in; `cross`: rows see the encoder's positions. A
  /// unit of work is some rows of one slice, or one part of a single row's positions, for the query
  /// heads of one KV head. The bits are the same either way.
  void attend_slices(const kernels::AttentionOperands& operands,
                     std::span<const DecoderSlice> slices, const LayerKv& place, bool cross);
  /// What the units of an attend_slices() have in common.
  struct SharedAttention {
    kernels::AttentionOperands operands;
    LayerKv place;
    bool cross = false;
    std::size_t most_parts = 1;  ///< into which a single row may be divided
  };
  /// Most parts for a single row of this step.
  std::size_t parts_of_a_row(std::span<const DecoderSlice> slices, std::size_t heads) const;
  kernels::AttentionOperands operands_of(const DecoderSlice& slice,
                                         const SharedAttention& shared) const;
  /// Into how many a slice is divided; 1 for all but single rows.
  std::size_t parts_of(const DecoderSlice& slice, const SharedAttention& shared) const;
  /// Where a single row's parts lie; `single`: how many single rows come before it.
  float* parts_at(std::size_t single, std::size_t head, const SharedAttention& shared) const;
  /// Unit `unit` of those of the slice: part or rows times KV heads plus the head.
  void attend_unit(const DecoderSlice& slice, std::size_t unit, std::size_t single,
                   std::size_t thread, const SharedAttention& shared);
  void merge_parts(std::span<const DecoderSlice> slices, const SharedAttention& shared);

  /// The residual stream's norm, in `buffer`; the stream itself when there is no norm.
  const float* normed_rows(const Norm& norm, float* buffer);
  /// hidden += scale * norm(block).
  void add_block(const Norm& post_norm);
  void norm_row(const Norm& norm, const float* x, float* y) const;
  void norm_heads(const std::vector<float>& weight, float* x, std::size_t n) const;

  ModelConfig config_;
  DecoderWeights weights_;
  const kernels::KernelTable& kernels_;
  std::size_t hidden_size_;
  std::size_t q_dim_;
  std::size_t kv_dim_;
  std::size_t head_dim_;
  std::size_t rope_pairs_;
  float attention_scale_;
  std::size_t max_rows_;
  std::size_t max_logits_rows_;
  std::size_t max_parts_ = 0;                    ///< that fit into parts_
  std::size_t rows_ = 0;                         ///< of the current step
  std::vector<const DecoderSlice*> row_slices_;  ///< for each row the slice it belongs to

  SparseAttention sparse_;
  KeyProjection projection_;

  MappedMemory memory_;
  // Parts of memory_; see DecoderScratch for their shapes.
  float* hidden_ = nullptr;
  float* normed_ = nullptr;
  float* ffn_normed_ = nullptr;
  float* block_ = nullptr;
  float* q_ = nullptr;
  float* k_ = nullptr;
  float* v_ = nullptr;
  float* attended_ = nullptr;
  float* parts_ = nullptr;
  float* cosines_ = nullptr;
  float* sines_ = nullptr;
  float* logits_ = nullptr;
  std::optional<CpuProducts> products_;
  std::optional<CpuFeedForward> feed_forward_;
  std::optional<CpuEncoder> encoder_;
};

}  // namespace sluice
