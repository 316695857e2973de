// The decoder graph on a CPU: tokens in, K and V into the pool, logits out.
//
//   x = embedding[token]
//   for each layer:  x += Wo attention(rope(Wq n), rope(Wk n), Wv n)   with n = norm(x)
//                    x += Wdown (silu(Wgate n) * Wup n)                with n = norm(x)
//   logits = Wout norm(x)
//
// All sequences of a step go through the matrices together, so each weight is read once a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/cpu_kv_pool.hpp"
#include "engine/backend/mapped_memory.hpp"
#include "engine/base/types.hpp"
#include "engine/model/decoder_scratch.hpp"
#include "engine/model/llama_weights.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cpu/kernels.hpp"
#include "kernels/cpu/rope.hpp"
#include "kernels/cpu/thread_pool.hpp"

namespace sluice {

/// Consecutive tokens of one sequence, checked already.
struct DecoderSlice {
  std::span<const TokenId> tokens;
  std::size_t first_position = 0;
  std::span<const BlockId> blocks;
  std::size_t first_row = 0;  ///< of the step's rows; set by the caller, ascending, no gaps
};

class CpuDecoder {
 public:
  CpuDecoder(const ModelConfig& config, LlamaWeights weights, const kernels::KernelTable& kernels,
             kernels::ThreadPool& threads, Position max_batch_tokens,
             std::int32_t max_sampled_rows);

  /// Computes the hidden state of every row and writes K and V. At most max_batch_tokens rows.
  void forward(std::span<const DecoderSlice> slices, const CpuKvPool& pool);

  /// Logits of some rows of the last forward(), [rows.size() x vocab], valid until the next call.
  /// At most max_logits_rows() rows.
  std::span<float> logits(std::span<const std::size_t> rows);
  std::size_t max_logits_rows() const { return max_logits_rows_; }

  std::size_t weights_bytes() const { return weights_.bytes; }
  std::size_t scratch_bytes() const { return memory_.bytes(); }

 private:
  /// Input [rows x weight.cols], output [rows x weight.rows], both dense.
  struct Product {
    const Projection* projection = nullptr;
    const float* x = nullptr;
    float* y = nullptr;
  };

  void embed(std::span<const DecoderSlice> slices);
  void attention_block(const LayerWeights& layer, std::span<const DecoderSlice> slices,
                       const kernels::KvLayer& kv);
  void feed_forward_block(const LayerWeights& layer);

  void norm_rows(const std::vector<float>& weight);
  void rotate_and_store(const LayerWeights& layer, const kernels::KvLayer& kv);
  void attend(std::span<const DecoderSlice> slices, const kernels::KvLayer& kv);

  /// Runs several products as one parallel loop over all their outputs.
  void multiply(std::span<const Product> products, std::size_t rows);
  /// hidden += projection(x); uses `normed_` for the product.
  void multiply_and_add(const Projection& projection, const float* x);
  /// Columns [begin, end) of one product, bias included.
  void multiply_columns(const Product& product, std::size_t rows, std::size_t begin,
                        std::size_t end, std::size_t thread);
  /// Outputs handed to a thread at a time.
  std::size_t output_grain(std::size_t outputs, const kernels::WeightMatrix& weight,
                           std::size_t rows) const;
  /// Calls f(row) for each row, in parallel when it is worth it.
  template <class F>
  void for_each_row(std::size_t rows, const F& f);

  float* thread_space(std::size_t thread) const { return per_thread_ + thread * thread_floats_; }

  ModelConfig config_;
  LlamaWeights weights_;
  const kernels::KernelTable& kernels_;
  kernels::ThreadPool& threads_;
  std::size_t hidden_size_;
  std::size_t q_dim_;
  std::size_t kv_dim_;
  std::size_t head_dim_;
  std::size_t rope_pairs_;
  std::size_t max_logits_rows_;
  std::size_t rows_ = 0;                         ///< of the current step
  std::vector<const DecoderSlice*> row_slices_;  ///< for each row the slice it belongs to

  MappedMemory memory_;
  // Parts of memory_; see DecoderScratch for their shapes.
  float* hidden_ = nullptr;
  float* normed_ = nullptr;
  float* q_ = nullptr;
  float* k_ = nullptr;
  float* v_ = nullptr;
  float* attended_ = nullptr;
  float* gate_ = nullptr;
  float* up_ = nullptr;
  float* cosines_ = nullptr;
  float* sines_ = nullptr;
  float* logits_ = nullptr;
  float* per_thread_ = nullptr;
  std::size_t thread_floats_ = 0;
};

}  // namespace sluice
