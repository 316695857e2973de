// Can this model run on a CUDA device of this machine, and with how much memory?
//
// Compiles in every build: without the CUDA parts the answer is always no, with the reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/backend/backend.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// Where a model is computed.
enum class DeviceChoice {
  kAuto,  ///< on a CUDA device where there is one that can, else on the CPU
  kCpu,
  kCuda,
};

struct CudaOfferRequest {
  std::int32_t device = 0;  ///< the driver's number
  KvTypes kv_types{};
  Position max_batch_tokens = 512;
  bool precise = false;
  bool fast_prefill = false;
};

struct CudaOffer {
  std::string why_not;         ///< not empty: there is no offer; one sentence without a full stop
  std::string device;          ///< e.g. "NVIDIA H200"
  std::size_t free_bytes = 0;  ///< of the device's memory
  std::size_t weights_bytes = 0;  ///< that the weights take there
  /// Device memory beside weights and KV, for sequences of so many positions.
  std::function<std::size_t(Position)> scratch_bytes;
  /// Makes the backend, for sequences of config.context_in_use, opening the device anew; may be
  /// called again after a failure. Throws Error.
  std::function<std::unique_ptr<Backend>(const ModelConfig& config)> make;
};

/// Throws Error(kCorrupt) for a model whose tensors contradict its configuration; everything else
/// that stands against it is in the answer.
CudaOffer offer_cuda(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
                     const CudaOfferRequest& request);

}  // namespace sluice
