// A backend with sequences of random tokens, driven step by step: what the engine does at its
// core, without actors, scheduler or text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "engine/backend/cpu_backend.hpp"
#include "engine/backend/cuda_offer.hpp"
#include "engine/formats/model_source.hpp"
#include "engine/model/model_config.hpp"

namespace sluice::bench {

struct BenchSettings {
  std::filesystem::path model;
  CpuBackendOptions backend;
  bool cuda = false;  ///< on a CUDA device, with the options that it shares with the CPU
  bool fast_prefill = false;
  int repeats = 5;
};

/// How much a step reads and computes at the least.
struct StepCost {
  double bytes = 0;       ///< of weights, all of them once, and of K and V
  double operations = 0;  ///< in matrix products; a multiplication and an addition are two
};

enum class Arithmetic { kF32, kBf16, kInt8 };

class BenchEngine {
 public:
  /// Room for `sequences` of `context` positions. Throws Error as the backend does.
  BenchEngine(const BenchSettings& settings, std::int32_t sequences, Position context);

  /// Feeds n random tokens at the end of a sequence and draws one; gives the step's seconds.
  double prefill(std::size_t sequence, Position n);
  /// One token for each of the first `count` sequences.
  double decode(std::size_t count);
  /// The sequence has so many positions from now on; what its KV holds does not matter for time.
  void set_length(std::size_t sequence, Position positions) { lengths_[sequence] = positions; }

  StepCost cost(std::size_t rows, std::size_t sampled, Position positions) const;
  BackendMemory memory() const { return backend_->memory(); }
  std::string description() const { return backend_->description(); }
  /// What most products are computed in.
  Arithmetic arithmetic() const { return arithmetic_; }
  const ModelConfig& config() const { return config_; }

 private:
  StepSlice slice(std::size_t sequence, Position n);
  double run(const StepBatch& batch);

  std::shared_ptr<const ModelSource> source_;
  ModelConfig config_;
  CpuBackendOptions options_;
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const SamplingParams> greedy_;
  std::vector<std::vector<BlockId>> tables_;  ///< of each sequence
  std::vector<Position> lengths_;             ///< positions in the KV
  std::uint64_t token_ = 1;
  double layer_weights_ = 0;
  double head_weights_ = 0;
  Arithmetic arithmetic_ = Arithmetic::kF32;
};

}  // namespace sluice::bench
