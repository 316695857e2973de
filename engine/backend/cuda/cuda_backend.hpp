// The CUDA backend: decoders on paged KV in the memory of one device.
//
// A step is enqueued on the compute stream in one go: one copy of everything it needs, the kernels,
// the draw of the tokens, one copy of the results, one event. Steps of decoding rows only are
// recorded as a graph for each size (step_inputs.hpp) the second time that size comes. Block moves
// run on the copy stream; the compute stream waits for them.
//
// Every failed call of the CUDA runtime becomes the step's `fatal`, a sentence with call, code and
// hint: the backend is then replaced, which opens the device again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/decoder_weights.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"
#include "kernels/cuda/device_api.hpp"

namespace sluice {

struct CudaBackendOptions {
  KvTypes kv_types{};
  Position max_batch_tokens = 512;     ///< largest step; scratch is sized for it
  std::int32_t max_sampled_rows = 64;  ///< logits computed at a time
  Position max_positions = 0;          ///< of a sequence; 0: as many as the KV pool holds
  bool precise = false;                ///< weights decoded to f32: slower, exact up to rounding
  /// Prompts through cuBLAS: faster; results then repeat only for the same chunks
  /// (cuda_decoder.hpp).
  bool fast_prefill = false;
  bool graphs = true;  ///< record decode steps; off: every step is launched kernel by kernel
};

/// What steps were made of, for tests and logs.
struct CudaStepCounts {
  std::uint64_t eager = 0;     ///< launched kernel by kernel
  std::uint64_t recorded = 0;  ///< graphs made
  std::uint64_t replayed = 0;  ///< steps that launched a graph
};

class CudaBackend final : public Backend {
 public:
  /// Uploads the weights. Throws Error: kUnsupported (why_not_on_cuda), kCorrupt, kDoesNotFit,
  /// kInvalidArgument (options), kInternal (a failed CUDA call).
  CudaBackend(std::unique_ptr<kernels::cuda::DeviceApi> device,
              std::shared_ptr<const ModelSource> source, const ModelConfig& config,
              const CudaBackendOptions& options);
  ~CudaBackend() override;

  void allocate_pool(const KvPoolShape& shape) override;
  StepResult step(const StepBatch& batch) noexcept override;
  void begin_step(const StepBatch& batch) noexcept override;
  std::optional<StepResult> end_step(std::chrono::microseconds patience) noexcept override;
  BackendMemory memory() const override;
  std::string description() const override;
  DeviceProbe device_probe() const override;

  /// See CpuBackend::logits().
  std::vector<float> logits(const StepBatch& batch, std::span<const std::size_t> rows);

  CudaStepCounts counts() const;

  /// Device memory beside weights and KV pool, for sequences of options.max_positions.
  static std::size_t estimate_scratch_bytes(const ModelConfig& config,
                                            const CudaBackendOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sluice
