// A decoder's weights in device memory: one allocation, uploaded once, quantised as they are.
//
// Matrices that read the same input (q, k, v; gate, up) write next to each other into one buffer
// row. Where their types allow it they lie one after the other in memory as well and are one matrix
// for the kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/cuda/device_memory.hpp"
#include "engine/model/decoder_weights.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch_types.hpp"

namespace sluice {

/// Some outputs of a joint product.
struct DeviceMatrix {
  kernels::cuda::Weights weights{};
  const float* bias = nullptr;    ///< [weights.rows]; or null
  std::int32_t first_output = 0;  ///< floats from the start of the row that it writes
};

/// Matrices with one input. `offsets`: where the outputs of each member begin in a row.
struct JointMatrix {
  std::vector<DeviceMatrix> parts;
  std::vector<std::int32_t> offsets;
  std::int32_t in = 0;
  std::int32_t stride = 0;  ///< floats of a row of outputs
};

struct DeviceLayer {
  kernels::cuda::NormWeights attention_norm{};
  kernels::cuda::NormWeights attention_post_norm{};
  kernels::cuda::NormWeights ffn_norm{};
  kernels::cuda::NormWeights ffn_post_norm{};
  JointMatrix qkv;
  JointMatrix attention_output;
  JointMatrix gate_up;  ///< gate first; without a gate only up
  JointMatrix down;
  const float* q_norm = nullptr;  ///< or null
  const float* k_norm = nullptr;
  bool whole_qk_norm = false;  ///< over all heads together
  const float* sinks = nullptr;
};

struct DeviceRope {
  const double* frequencies = nullptr;  ///< [rope_dims / 2]
  double magnitude = 1.0;
};

struct DeviceWeights {
  kernels::cuda::Weights token_embedding{};
  kernels::cuda::Weights position_embedding{};  ///< no data: none
  std::vector<DeviceLayer> layers;
  kernels::cuda::NormWeights output_norm{};
  JointMatrix lm_head;
  std::vector<DeviceRope> ropes;
  DeviceBuffer memory;  ///< what the pointers point into
};

/// Bytes of device memory that upload_weights() takes. `precise`: everything in f32.
std::size_t device_weights_bytes(const DecoderWeights& weights, const ModelConfig& config,
                                 bool precise);

/// Copies everything through pinned memory, one piece being prepared while another travels. The
/// file's pages are let go. Throws Error: kDoesNotFit, kInternal (a failed CUDA call).
DeviceWeights upload_weights(const DecoderWeights& weights, const ModelConfig& config, bool precise,
                             DeviceQueue& queue);

}  // namespace sluice
