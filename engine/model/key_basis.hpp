// A basis for the keys of each layer and KV head, for storing keys with fewer
// elements.
//
// Of keys k (after rope) with mean m and covariance C, the eigenvectors v_0,
// v_1, ... of C by falling variance are the directions along which keys differ
// most. A key is stored as its first r coordinates v_i . (k - m) and a query
// becomes v_i . q. The product of the two differs from q . k by q . m, which is
// the same for all positions and falls out of the softmax, and by what the
// other directions add, which is small where their variance is.
//
// In a file: "SLKEYS01", layers, KV heads, head_dim as u32, then means,
// variances and vectors as f32, all little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "engine/model/model_config.hpp"

namespace sluice {

/// Largest head that a basis can be for.
inline constexpr std::size_t kMostKeyElements = 1024;

struct KeyBasis {
  std::int32_t num_layers = 0;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim = 0;
  std::vector<float> means;      ///< [layers x heads x head_dim]
  std::vector<float> variances;  ///< [layers x heads x head_dim], falling
  std::vector<float> vectors;    ///< [layers x heads x head_dim x head_dim], a vector a row

  /// Share of the keys' variance that the first `rank` directions hold, over
  /// all layers and heads.
  double share_of(std::int32_t rank) const;
};

/// Throws Error(kIo).
void write_key_basis(const KeyBasis& basis, const std::filesystem::path& path);

/// Throws Error: kNotFound, kCorrupt (not such a file, damaged, not numbers).
KeyBasis read_key_basis(const std::filesystem::path& path);

/// Throws Error(kInvalidArgument): a basis of another model's shape; a rank
/// that is no number of elements from 1 to head_dim.
void check_key_basis(const KeyBasis& basis, std::int32_t rank, const ModelConfig& config);

}  // namespace sluice
