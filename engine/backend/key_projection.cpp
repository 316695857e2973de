#include "engine/backend/key_projection.hpp"

#include <algorithm>
#include <array>

namespace sluice {
KeyProjection::KeyProjection(const KeyBasis& basis, std::int32_t rank)
    : num_kv_heads_(static_cast<std::size_t>(basis.num_kv_heads)),
      head_dim_(static_cast<std::size_t>(basis.head_dim)),
      rank_(static_cast<std::size_t>(rank)) {
  const std::size_t heads = static_cast<std::size_t>(basis.num_layers) * num_kv_heads_;
  vectors_.resize(heads * head_dim_ * rank_);
  offsets_.resize(heads * rank_);
  for (std::size_t h = 0; h < heads; ++h) {
    float* out = vectors_.data() + h * head_dim_ * rank_;
    for (std::size_t i = 0; i < rank_; ++i)
      for (std::size_t d = 0; d < head_dim_; ++d)
        out[d * rank_ + i] = basis.vectors[(h * head_dim_ + i) * head_dim_ + d];
    multiply(out, basis.means.data() + h * head_dim_, offsets_.data() + h * rank_);
  }
}

void KeyProjection::multiply(const float* basis, const float* x, float* to) const {
  std::fill(to, to + rank_, 0.0F);
  for (std::size_t d = 0; d < head_dim_; ++d)
    for (std::size_t i = 0; i < rank_; ++i) to[i] += x[d] * basis[d * rank_ + i];
}

void KeyProjection::project_keys(std::size_t layer, float* keys) const {
  std::array<float, kMostKeyElements> head;
  for (std::size_t h = 0; h < num_kv_heads_; ++h) {
    multiply(basis(layer, h), keys + h * head_dim_, head.data());
    const float* offset = offsets_.data() + (layer * num_kv_heads_ + h) * rank_;
    for (std::size_t i = 0; i < rank_; ++i) keys[h * rank_ + i] = head[i] - offset[i];
  }
}

void KeyProjection::project_queries(std::size_t layer, float* queries,
                                    std::size_t num_heads) const {
  std::array<float, kMostKeyElements> head;
  for (std::size_t h = 0; h < num_heads; ++h) {
    multiply(basis(layer, h / (num_heads / num_kv_heads_)), queries + h * head_dim_, head.data());
    std::copy(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(rank_), queries + h * rank_);
  }
}

}  // namespace sluice
