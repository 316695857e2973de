// The decoder graph on a CUDA device: enqueues the kernels of a step, waits for nothing.
//
//   x = scale * embedding[token] (+ position[p])
//   for each layer:  x += post(Wo attention(rope(Wq n), rope(Wk n), Wv n))   with n = norm(x)
//                    x += post(feed_forward(n))                              with n = norm(x)
//   logits = cap(scale * Wout norm(x))
//
// Adding a block's output and the norm that follows are one kernel. The numbers are those of
// cpu_decoder.hpp up to rounding.
//
// By default every product runs in kernels whose bits for a row depend on the row alone. With
// `fast_prefill` rows of prompts go through cuBLAS instead, with inputs rounded to TF32: faster,
// and a position's bits then depend on whether it came in a chunk of several.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/cuda_products.hpp"
#include "engine/backend/cuda/device_kv_pool.hpp"
#include "engine/backend/cuda/device_memory.hpp"
#include "engine/backend/cuda/device_weights.hpp"
#include "engine/backend/cuda/step_inputs.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

struct CudaDecoderLimits {
  std::int32_t rows = 512;         ///< of a step, padding included
  std::int32_t sampled_rows = 64;  ///< whose logits are computed at a time
  bool fast_prefill = false;
};

class CudaDecoder {
 public:
  /// Takes the work buffers. Throws as require().
  CudaDecoder(const ModelConfig& config, DeviceWeights weights, const CudaDecoderLimits& limits,
              DeviceQueue& queue);

  /// Takes what attention needs for sequences of so many positions. Throws as require().
  void size_attention(std::int32_t positions);

  /// Hidden states of all rows; K and V go into the pool.
  void forward(const StepView& step, const DeviceKvPool& pool);
  /// Logits of `count` of the step's sampled rows from `first`, [count x vocab], valid until the
  /// next call.
  float* logits(const StepView& step, std::int32_t first, std::int32_t count);
  /// Logits of `count` rows that a device array names, at most limits.sampled_rows.
  float* logits_of(const std::int32_t* rows, std::int32_t count);

  float* last_logits() const { return buffers_.logits; }

  std::int32_t tile_rows() const;
  std::size_t weights_bytes() const { return weights_.memory.bytes(); }
  std::size_t scratch_bytes() const { return work_.bytes() + attention_work_.bytes(); }
  /// Upper bound of scratch_bytes(), without taking anything.
  static std::size_t estimate_scratch_bytes(const ModelConfig& config,
                                            const CudaDecoderLimits& limits,
                                            std::int32_t positions);

 private:
  /// Work buffers, all in one allocation.
  struct Buffers {
    float* hidden = nullptr;      ///< [rows x hidden]: the residual stream
    float* normed = nullptr;      ///< [rows x hidden]
    float* ffn_normed = nullptr;  ///< likewise, for parallel blocks
    float* block = nullptr;       ///< [rows x hidden]
    float* qkv = nullptr;         ///< [rows x qkv.stride]
    float* attended = nullptr;    ///< [rows x heads * head_dim]
    float* gate_up = nullptr;     ///< [rows x gate_up.stride]
    float* cosines = nullptr;     ///< [ropes x rows x pairs]
    float* sines = nullptr;       ///< likewise
    float* logits = nullptr;      ///< [sampled rows x vocab]
    ProductBuffers products;
  };
  /// Lays the buffers out behind `base`; returns their bytes.
  static std::size_t place(const ModelConfig& config, const CudaDecoderLimits& limits,
                           std::byte* base, Buffers& buffers);

  void embed(const StepView& step);
  void run_layer(std::size_t index, const StepView& step, const DeviceKvPool& pool);
  void attention_block(std::size_t index, const float* input, const StepView& step,
                       const DeviceKvPool& pool);
  void rotate_and_store(std::size_t index, const StepView& step, const DeviceKvPool& pool);
  void attend(std::size_t index, const StepView& step, const DeviceKvPool& pool);
  void attend_decoding(const kernels::cuda::Attention& operands, const kernels::cuda::KvLayer& kv,
                       const kernels::cuda::RowPlaces& places, const StepView& step);
  void feed_forward(const DeviceLayer& layer, const float* input, const StepView& step);

  /// hidden += scale * post_norm(block), normed = norm(hidden); without a norm only the first.
  void add_block(const kernels::cuda::NormWeights& post_norm,
                 const kernels::cuda::NormWeights& norm, std::int32_t rows);
  /// What a block reads: hidden's norm in `buffer`, or hidden itself without a norm.
  const float* normed_rows(const kernels::cuda::NormWeights& norm, float* buffer,
                           std::int32_t rows);

  /// The first row whose products go through cuBLAS.
  std::int32_t gemm_from(const StepView& step) const;

  ModelConfig config_;
  DeviceWeights weights_;
  CudaDecoderLimits limits_;
  DeviceQueue& queue_;
  std::int32_t q_dim_;
  std::int32_t pairs_;
  float attention_scale_;
  DeviceBuffer work_;
  Buffers buffers_;
  CudaProducts products_;
  DeviceBuffer attention_work_;
};

}  // namespace sluice
