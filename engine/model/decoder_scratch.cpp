#include "engine/model/decoder_scratch.hpp"

#include <algorithm>

#include "engine/sampling/sampler.hpp"
#include "kernels/cpu/kernels.hpp"

namespace sluice {
namespace {

std::size_t whole_lines(std::size_t floats) {
  return (floats + 15) / 16 * 16;
}

}  // namespace

std::size_t DecoderScratch::floats(std::int32_t threads) const {
  return hidden + normed + ffn_normed + block + q + k + v + attended + parts + gate + up + routed +
         scores + cosines + sines + logits + encoder_k + encoder_v + rounded +
         per_thread * static_cast<std::size_t>(threads);
}

DecoderScratch decoder_scratch(const ModelConfig& config, Position max_batch_tokens,
                               std::int32_t max_sampled_rows) {
  const auto size = [](std::int32_t n) { return static_cast<std::size_t>(std::max(n, 0)); };
  const std::size_t rows = size(max_batch_tokens);
  const std::size_t hidden = size(config.hidden_size);
  const std::size_t q_dim = size(config.num_heads) * size(config.head_dim);
  const std::size_t kv_dim = size(config.num_kv_heads) * size(config.head_dim);
  const ExpertConfig& experts = config.experts;
  const std::size_t routed_rows = rows * size(experts.used);
  DecoderScratch s;
  s.hidden = s.normed = s.block = whole_lines(rows * hidden);
  if (config.options.parallel_block && !config.options.shared_norm) s.ffn_normed = s.hidden;
  s.q = s.attended = whole_lines(rows * q_dim);
  s.k = s.v = whole_lines(rows * kv_dim);
  const std::size_t spans =
      (size(config.context_length) + kernels::kAttentionSpan - 1) / kernels::kAttentionSpan;
  if (spans > 1)
    s.parts =
        whole_lines(std::min(spans, kAttentionPartsMax) *
                    kernels::attention_part_floats(size(config.num_heads), size(config.head_dim)));
  // Layers without experts may stand between those with them.
  s.up = whole_lines(std::max(rows * size(std::max(config.ffn_size, experts.shared_ffn_size)),
                              routed_rows * size(experts.ffn_size)));
  if (config.options.gated) s.gate = s.up;
  s.routed = whole_lines(routed_rows * hidden);
  s.scores = whole_lines(rows * size(experts.count));
  s.cosines = s.sines = whole_lines(rows * size(config.rope_dims) / 2 * config.ropes.size());
  s.logits = whole_lines(std::min(rows, size(max_sampled_rows)) * size(config.vocab_size));
  if (config.has_encoder()) {
    const std::size_t padded = (rows + kEncoderBlock - 1) / kEncoderBlock * kEncoderBlock;
    s.encoder_k = s.encoder_v = whole_lines(padded * kv_dim);
  }
  // Products that share an input need a form of it each when their weights have different types.
  const auto rounded = [](std::size_t count, std::size_t cols, std::size_t forms) {
    return whole_lines(forms * count * kernels::prepared_row_bytes_max(cols) / sizeof(float));
  };
  s.rounded =
      std::max({rounded(rows, hidden, 3), rounded(rows, q_dim, 1),
                rounded(rows, size(std::max(config.ffn_size, experts.shared_ffn_size)), 1),
                rounded(routed_rows, hidden, 2), rounded(routed_rows, size(experts.ffn_size), 1)});
  const std::size_t longest = std::max({hidden, q_dim, size(config.ffn_size),
                                        size(experts.ffn_size), size(experts.shared_ffn_size)});
  s.per_thread = whole_lines(
      std::max({kernels::packed_workspace_bytes(longest) / sizeof(float),
                kernels::matmul_workspace_floats(hidden), kernels::matmul_workspace_floats(q_dim),
                kernels::matmul_workspace_floats(size(config.ffn_size)),
                kernels::matmul_workspace_floats(size(experts.ffn_size)),
                kernels::matmul_workspace_floats(size(experts.shared_ffn_size)),
                kernels::attention_workspace_floats(
                    size(config.num_heads), size(config.num_kv_heads), size(config.head_dim))}));
  return s;
}

std::size_t decoder_scratch_bytes(const ModelConfig& config, Position max_batch_tokens,
                                  std::int32_t max_sampled_rows, std::int32_t threads) {
  const auto vocab = static_cast<std::size_t>(std::max(config.vocab_size, 0));
  return decoder_scratch(config, max_batch_tokens, max_sampled_rows).floats(threads) *
             sizeof(float) +
         static_cast<std::size_t>(threads) * Sampler::workspace_bytes(vocab);
}

}  // namespace sluice
