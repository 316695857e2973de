// The encoder of an encoder-decoder model on a CPU: a whole input in, the K and V that the
// decoder's cross-attention reads out.
//
//   x = embedding[token]
//   for each layer:  x += Wo attention(Wq n, Wk n, Wv n)   with n = norm(x), every row sees all
//   rows
//                    x += feed_forward(norm(x))
//   e = norm(x)
//   for each layer of the decoder:  K = Wk e, V = Wv e, into the pool at the input's positions
//
// A row depends on its own input alone, so inputs of several sequences go through together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/cpu_feed_forward.hpp"
#include "engine/backend/cpu_kv_pool.hpp"
#include "engine/backend/cpu_products.hpp"
#include "engine/base/types.hpp"
#include "engine/model/decoder_weights.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {

/// The whole input of one sequence, checked already.
struct EncoderInput {
  std::span<const TokenId> tokens;
  std::size_t first_position = 0;   ///< K and V before it are in the pool already
  std::span<const BlockId> blocks;  ///< the sequence's table
};

/// Buffers that the decoder lends, with its shapes; see DecoderScratch.
struct EncoderBuffers {
  float* hidden = nullptr;
  float* normed = nullptr;
  float* block = nullptr;
  float* q = nullptr;
  float* k = nullptr;
  float* v = nullptr;
  float* attended = nullptr;
  float* all_k = nullptr;  ///< K of a layer, in blocks of kEncoderBlock positions
  float* all_v = nullptr;
};

class CpuEncoder {
 public:
  /// The references must outlive it. At most `max_rows` tokens go through at a time.
  CpuEncoder(const ModelConfig& config, const DecoderWeights& weights, CpuProducts& products,
             CpuFeedForward& feed_forward, const EncoderBuffers& buffers, std::size_t max_rows);

  /// Each input has at most max_rows tokens; together they may have more.
  void run(std::span<const EncoderInput> inputs, const CpuKvPool& pool);

 private:
  /// Where an input stands among the rows and blocks of a run.
  struct Place {
    const EncoderInput* input = nullptr;
    std::size_t first_row = 0;
    std::size_t first_block = 0;
  };

  /// Takes as many inputs as there is room for; gives their number.
  std::size_t place(std::span<const EncoderInput> inputs);
  void encode();
  void run_layer(const LayerWeights& layer);
  void store(const LayerWeights& layer);
  void attend();
  void write_cross(std::size_t layer, const CpuKvPool& pool);

  const float* normed_rows(const Norm& norm);
  void add_block();

  const ModelConfig& config_;
  const DecoderWeights& weights_;
  CpuProducts& products_;
  CpuFeedForward& feed_forward_;
  EncoderBuffers buffers_;
  std::size_t hidden_size_;
  std::size_t q_dim_;
  std::size_t max_rows_;
  kernels::KvLayer kv_;         ///< of the layer at hand, in all_k and all_v
  std::vector<BlockId> table_;  ///< 0, 1, 2, ...

  std::vector<Place> places_;
  std::vector<std::size_t> row_places_;  ///< for each row the place it belongs to
  std::size_t rows_ = 0;
};

}  // namespace sluice
