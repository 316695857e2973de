// The feed-forward part of a layer: one block for all rows, or experts chosen row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/cpu_products.hpp"
#include "engine/model/decoder_weights.hpp"
#include "engine/model/model_config.hpp"

namespace sluice {

/// Buffers that the caller lends; shapes in DecoderScratch.
struct FeedForwardBuffers {
  float* gate = nullptr;
  float* up = nullptr;
  float* routed = nullptr;
  float* scores = nullptr;
};

/// The experts that each row chose, and the rows that each expert got.
///
/// Worked example: 3 rows, 2 of 4 experts each. Row 0 chose 2 then 0, row 1 chose 2 then 3, row 2
/// chose 0 then 2. Sorted by expert: expert 0 has rows 0, 2; 2 has 0, 1, 2; 3 has 1. `place` says
/// where each choice stands in that order: {2, 0}, {3, 5}, {1, 4}.
struct Routing {
  std::size_t used = 0;              ///< experts a row
  std::vector<std::int32_t> expert;  ///< [rows x used], best first
  std::vector<float> weight;         ///< [rows x used]
  std::vector<std::size_t> place;    ///< [rows x used]
  std::vector<std::size_t> first;    ///< [experts + 1]: places of expert e from first[e] on
};

class CpuFeedForward {
 public:
  CpuFeedForward(const ModelConfig& config, CpuProducts& products,
                 const FeedForwardBuffers& buffers, std::size_t max_rows);

  /// out = block(x), both [rows x hidden].
  void run(const LayerWeights& layer, const float* x, std::size_t rows, float* out);

 private:
  void run_dense(const FeedForward& block, const float* x, std::size_t rows, float* out);

  // Mixture of experts, in cpu_experts.cpp.
  void run_experts(const MixtureOfExperts& moe, const float* x, std::size_t rows, float* out);
  void choose_experts(std::size_t row);
  void sort_by_expert(std::size_t rows);
  void multiply_experts(const MixtureOfExperts& moe);
  void add_shared_expert(const MixtureOfExperts& moe, const float* x, std::size_t rows, float* out);

  /// Turns n elements of gate and up into the input of `down`, in gate, or in up without gates.
  void activate(float* gate, float* up, std::size_t n) const;

  CpuProducts& products_;
  FeedForwardBuffers buffers_;
  Activation activation_;
  bool gated_;
  std::size_t hidden_size_;
  ExpertConfig experts_;
  Routing routing_;
  std::vector<Product> expert_products_;
};

}  // namespace sluice
