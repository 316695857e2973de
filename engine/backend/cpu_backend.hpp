// The CPU backend: decoders on paged KV.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/backend.hpp"
#include "engine/formats/dtype.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/key_basis.hpp"
#include "engine/model/kv_types.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/sparse_attention.hpp"

namespace sluice {

struct CpuBackendOptions {
  std::int32_t threads = 0;  ///< 0: one per physical core
  DType kv_type_k = DType::kF16;
  DType kv_type_v = DType::kF16;
  std::vector<KvLayerTypes> kv_layers{};        ///< exceptions from these, layer by layer
  SparseAttention sparse{};                     ///< experiment
  std::shared_ptr<const KeyBasis> key_basis{};  ///< experiment: with it and a rank, keys are
  std::int32_t key_rank = 0;                    ///< stored as so many elements of a head
  Position max_batch_tokens = 512;              ///< largest step; scratch is sized for it
  /// Rows whose logits are computed at a time; a step that samples more takes several rounds.
  std::int32_t max_sampled_rows = 64;
  /// Keep activations in f32 and weights as they are in the file: slower, and as exact as the
  /// weights allow. Otherwise inputs of quantised matrices are rounded to 8 bits.
  bool precise = false;
  /// Instruction set of the kernels: "scalar", "avx2", "avx512", "avx512vnni"; empty: the best
  /// there is.
  std::string kernels;
};

class CpuBackend final : public Backend {
 public:
  /// Throws as make_cpu_backend.
  CpuBackend(std::shared_ptr<const ModelSource> source, const ModelConfig& config,
             const CpuBackendOptions& options);
  ~CpuBackend() override;

  void allocate_pool(const KvPoolShape& shape) override;
  StepResult step(const StepBatch& batch) noexcept override;
  BackendMemory memory() const override;
  std::string description() const override;

  /// Runs a batch like a step (K and V are written) and returns the logits of every position of
  /// every slice, [tokens of the batch x vocab_size], instead of drawing; with an encoder, of the
  /// tokens that the decoder reads. For tools and tests.
  /// Throws Error(kInvalidArgument) with what would be a slice's error.
  std::vector<float> logits(const StepBatch& batch);
  /// The same for some rows of the batch, [rows.size() x vocab_size]; a row is such a token,
  /// counted over all slices.
  std::vector<float> logits(const StepBatch& batch, std::span<const std::size_t> rows);

  /// The keys of one position as they are stored, rotated, [KV heads x elements of a key]. For
  /// tools and tests. Throws Error(kInvalidArgument): no such place, K not in f32.
  std::vector<float> stored_keys(std::size_t layer, BlockId block, std::int32_t offset) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Checks every tensor's presence, shape and type against the configuration and builds the
/// backend; weights stay in the mapping. Throws Error: kCorrupt, kUnsupported, kInvalidArgument
/// (options), kDoesNotFit (scratch).
std::unique_ptr<Backend> make_cpu_backend(std::shared_ptr<const ModelSource> source,
                                          const ModelConfig& config,
                                          const CpuBackendOptions& options);

}  // namespace sluice
