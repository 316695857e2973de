// One sequence in paged KV for the attention tests, and what attention must give for it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "tests/kernels/kernel_test_support.hpp"

namespace sluice::kernels::test {

struct Shape {
  std::size_t heads, kv_heads, head_dim;
};

/// What attention may be told besides the plain case.
struct AttentionOptions {
  std::size_t window = 0;
  std::size_t keep_first = 0;
  float softcap = 0.0F;
  std::vector<float> sinks{};
  std::size_t every = 0;
  std::size_t first_seen = 0;
  std::size_t seen_end = 0;
  std::vector<float> bias{};  ///< [heads x (2 bias_reach + 1)]
  std::size_t bias_reach = 0;

  bool sees(std::size_t position, std::size_t other) const {
    if (seen_end != 0) return other < seen_end;
    return other >= first_seen && other <= position &&
           (window == 0 || position - other < window || other < keep_first ||
            (every != 0 && other % every == 0));
  }
};

/// Keys, values and queries of one sequence, and a KV layer that holds it somewhere.
class Sequence {
 public:
  Sequence(const KernelTable& table, Shape shape, std::size_t positions, std::size_t block_size,
           KvEncoding encoding, std::uint32_t seed, std::uint32_t block_seed)
      : table_(table), shape_(shape), positions_(positions) {
    std::mt19937 random(seed);
    q = random_floats(positions * shape.heads * shape.head_dim, random);
    k = random_floats(positions * kv_dim(), random);
    v = random_floats(positions * kv_dim(), random);
    const std::size_t num_blocks = (positions + block_size - 1) / block_size + 3;
    for (std::size_t i = 0; i < num_blocks; ++i) blocks_.push_back(static_cast<std::int32_t>(i));
    std::mt19937 block_random(block_seed);
    std::shuffle(blocks_.begin(), blocks_.end(), block_random);
    const std::size_t bytes =
        num_blocks * block_size * shape.kv_heads * kv_row_bytes(encoding, shape.head_dim);
    // Never written positions hold NaN (all bits set), which must not be seen.
    k_bytes_.assign(bytes, std::byte{0xFF});
    v_bytes_.assign(bytes, std::byte{0xFF});
    layer_ = {k_bytes_.data(), v_bytes_.data(), encoding,  encoding,
              shape.kv_heads,  shape.head_dim,  block_size};
    used_blocks_ = (positions + block_size - 1) / block_size;
    for (std::size_t p = 0; p < positions; ++p)
      write(p, std::span(k).subspan(p * kv_dim(), kv_dim()),
            std::span(v).subspan(p * kv_dim(), kv_dim()));
  }

  void write(std::size_t position, std::span<const float> key, std::span<const float> value) {
    table_.write_kv(layer_, static_cast<std::size_t>(blocks_[position / layer_.block_size]),
                    position % layer_.block_size, key.data(), value.data());
  }

  std::size_t kv_dim() const { return shape_.kv_heads * shape_.head_dim; }
  std::size_t q_dim() const { return shape_.heads * shape_.head_dim; }

  /// Frees the blocks that no row from `first` on sees: their entries become negative.
  void free_unseen(std::size_t first, const AttentionOptions& options) {
    for (std::size_t b = 0; b < used_blocks_; ++b) {
      bool seen = false;
      for (std::size_t p = b * layer_.block_size; p < (b + 1) * layer_.block_size; ++p)
        seen = seen || p >= first || options.sees(first, p);
      if (!seen) blocks_[b] = -1;
    }
  }

  /// Output rows of positions [first, end), computed in calls of at most `rows` rows.
  std::vector<float> attend(std::size_t first, std::size_t end, std::size_t rows,
                            const AttentionOptions& options = {}) const {
    std::vector<float> out((end - first) * q_dim(), -1.0F);
    std::vector<float> space(
        attention_workspace_floats(shape_.heads, shape_.kv_heads, shape_.head_dim));
    const AttentionOperands a = operands(first, out, options);
    for (std::size_t h = 0; h < shape_.kv_heads; ++h)
      for (std::size_t row = 0; row < end - first; row += rows)
        table_.attention(layer_, a, h, row, std::min(row + rows, end - first), space.data());
    return out;
  }

  /// Output of one row, its spans in at most `most` parts, the last of which is computed first.
  std::vector<float> attend_in_parts(std::size_t position, std::size_t most,
                                     const AttentionOptions& options = {}) const {
    std::vector<float> out(q_dim(), -1.0F);
    std::vector<float> space(
        attention_workspace_floats(shape_.heads, shape_.kv_heads, shape_.head_dim));
    const AttentionOperands a = operands(position, out, options);
    const SpanRange spans = attention_spans(a, position);
    const std::size_t count = std::min(most, spans.end - spans.begin);
    const std::size_t floats =
        attention_part_floats(shape_.heads / shape_.kv_heads, shape_.head_dim);
    for (std::size_t h = 0; h < shape_.kv_heads; ++h) {
      std::vector<float> parts(count * floats, -2.0F);
      for (std::size_t i = count; i-- > 0;) {
        const std::size_t end = spans.end - count + i + 1;
        table_.attention_part(layer_, a, h, 0, {i == 0 ? 0 : end - 1, end},
                              parts.data() + i * floats, space.data());
      }
      table_.attention_merge(layer_, a, h, 0, parts.data(), count);
    }
    return out;
  }

  /// The definition, in double.
  std::vector<double> expected(const AttentionOptions& options = {}) const {
    std::vector<double> out(positions_ * q_dim());
    for (std::size_t p = 0; p < positions_; ++p)
      for (std::size_t h = 0; h < shape_.heads; ++h) expected_head(p, h, options, out);
    return out;
  }

  /// One row of it.
  std::vector<double> expected_row(std::size_t p, const AttentionOptions& options = {}) const {
    std::vector<double> out(positions_ * q_dim());
    for (std::size_t h = 0; h < shape_.heads; ++h) expected_head(p, h, options, out);
    const auto from = out.begin() + static_cast<std::ptrdiff_t>(p * q_dim());
    return {from, from + static_cast<std::ptrdiff_t>(q_dim())};
  }

  std::vector<float> q, k, v;

  const std::vector<std::byte>& key_bytes() const { return k_bytes_; }
  const std::vector<std::byte>& value_bytes() const { return v_bytes_; }

 private:
  AttentionOperands operands(std::size_t first, std::vector<float>& out,
                             const AttentionOptions& options) const {
    AttentionOperands a;
    a.q = q.data() + first * q_dim();
    a.out = out.data();
    a.stride = q_dim();
    a.num_heads = shape_.heads;
    a.scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
    a.first_position = first;
    a.blocks = blocks_.data();
    a.window = options.window;
    a.keep_first = options.keep_first;
    a.softcap = options.softcap;
    a.every = options.every;
    a.first_seen = options.first_seen;
    a.seen_end = options.seen_end;
    a.bias = options.bias.empty() ? nullptr : options.bias.data();
    a.bias_reach = options.bias_reach;
    a.sinks = options.sinks.empty() ? nullptr : options.sinks.data();
    return a;
  }

  double score(std::size_t p, std::size_t t, std::size_t h, const AttentionOptions& options) const {
    const auto softcap = static_cast<double>(options.softcap);
    const std::size_t group = shape_.heads / shape_.kv_heads;
    double dot = 0;
    for (std::size_t d = 0; d < shape_.head_dim; ++d)
      dot += static_cast<double>(q[p * q_dim() + h * shape_.head_dim + d]) *
             static_cast<double>(k[t * kv_dim() + h / group * shape_.head_dim + d]);
    dot /= std::sqrt(static_cast<double>(shape_.head_dim));
    dot = softcap == 0 ? dot : softcap * std::tanh(dot / softcap);
    if (options.bias.empty()) return dot;
    const auto reach = static_cast<std::ptrdiff_t>(options.bias_reach);
    const std::ptrdiff_t away =
        std::clamp(static_cast<std::ptrdiff_t>(t) - static_cast<std::ptrdiff_t>(p), -reach, reach);
    const std::size_t at = h * (2 * options.bias_reach + 1);
    return dot + static_cast<double>(options.bias[at + static_cast<std::size_t>(away + reach)]);
  }

  void expected_head(std::size_t p, std::size_t h, const AttentionOptions& options,
                     std::vector<double>& out) const {
    const std::size_t kv_head = h / (shape_.heads / shape_.kv_heads);
    std::vector<double> weights(positions_);
    double sum = options.sinks.empty() ? 0.0 : std::exp(static_cast<double>(options.sinks[h]));
    for (std::size_t t = 0; t < positions_; ++t) {
      if (!options.sees(p, t)) continue;
      weights[t] = std::exp(score(p, t, h, options));
      sum += weights[t];
    }
    for (std::size_t t = 0; t < positions_; ++t)
      for (std::size_t d = 0; d < shape_.head_dim; ++d)
        out[p * q_dim() + h * shape_.head_dim + d] +=
            weights[t] / sum * static_cast<double>(v[t * kv_dim() + kv_head * shape_.head_dim + d]);
  }

  const KernelTable& table_;
  Shape shape_;
  std::size_t positions_;
  std::size_t used_blocks_ = 0;
  std::vector<std::int32_t> blocks_;
  std::vector<std::byte> k_bytes_, v_bytes_;
  KvLayer layer_;
};

}  // namespace sluice::kernels::test
