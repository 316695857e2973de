// Keys and queries in the coordinates of a KeyBasis, cut to the first of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/key_basis.hpp"

namespace sluice {

class KeyProjection {
 public:
  KeyProjection() = default;  ///< not active
  /// The basis fits the model and the rank (check_key_basis).
  KeyProjection(const KeyBasis& basis, std::int32_t rank);

  bool active() const { return rank_ > 0; }

  /// Turns rotated keys [KV heads x head_dim] into [KV heads x rank], packed at
  /// the beginning.
  void project_keys(std::size_t layer, float* keys) const;
  /// The same for the queries [num_heads x head_dim] of a row; heads of a group
  /// share a basis.
  void project_queries(std::size_t layer, float* queries, std::size_t num_heads) const;

 private:
  const float* basis(std::size_t layer, std::size_t kv_head) const {
    return vectors_.data() + (layer * num_kv_heads_ + kv_head) * head_dim_ * rank_;
  }
  /// to[i] = sum over d of x[d] * basis[d][i].
  void multiply(const float* basis, const float* x, float* to) const;

  std::size_t num_kv_heads_ = 0;
  std::size_t head_dim_ = 0;
  std::size_t rank_ = 0;
  std::vector<float> vectors_;  ///< [layers x KV heads x head_dim x rank]
  std::vector<float> offsets_;  ///< [layers x KV heads x rank]: coordinates of the mean
};

}  // namespace sluice
