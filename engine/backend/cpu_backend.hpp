// The CPU backend: llama-family decoders on paged KV.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backend/backend.hpp"
#include "engine/formats/dtype.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

struct CpuBackendOptions {
  std::int32_t threads = 0;  ///< 0: one per physical core
  DType kv_type_k = DType::kF16;
  DType kv_type_v = DType::kF16;
  Position max_batch_tokens = 512;  ///< largest step; scratch is sized for it
};

/// Checks every tensor's presence, shape and type against the configuration and builds the
/// backend; weights stay in the mapping. Throws Error: kCorrupt, kUnsupported.
std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<const ModelSource> source,
                                          const ModelConfig& config,
                                          const CpuBackendOptions& options);

}  // namespace sluice
