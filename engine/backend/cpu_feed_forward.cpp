#include "engine/backend/cpu_feed_forward.hpp"

#include <array>

namespace sluice {

CpuFeedForward::CpuFeedForward(const ModelConfig& config, CpuProducts& products,
                               const FeedForwardBuffers& buffers, std::size_t max_rows)
    : products_(products),
      buffers_(buffers),
      activation_(config.options.activation),
      gated_(config.options.gated),
      hidden_size_(static_cast<std::size_t>(config.hidden_size)),
      experts_(config.experts) {
  if (experts_.count == 0) return;
  // Nothing is allocated during a step.
  routing_.used = static_cast<std::size_t>(experts_.used);
  routing_.expert.resize(max_rows * routing_.used);
  routing_.weight.resize(max_rows * routing_.used);
  routing_.place.resize(max_rows * routing_.used);
  routing_.first.resize(static_cast<std::size_t>(experts_.count) + 1);
  expert_products_.reserve(2 * static_cast<std::size_t>(experts_.count));
}

void CpuFeedForward::run(const LayerWeights& layer, const float* x, std::size_t rows, float* out) {
  if (layer.moe.experts.empty())
    run_dense(layer.ffn, x, rows, out);
  else
    run_experts(layer.moe, x, rows, out);
}

void CpuFeedForward::run_dense(const FeedForward& block, const float* x, std::size_t rows,
                               float* out) {
  const std::size_t ffn = block.up.weight.rows;
  const Product up{&block.up, x, buffers_.up, rows};
  const Product gate = gated_ ? Product{&block.gate, x, buffers_.gate, rows} : up;
  const std::span<const std::byte* const> rounded = products_.prepare(std::array{up, gate});
  const std::size_t work = rows * ffn * block.up.weight.cols;
  products_.threads().for_each_chunk(
      ffn, products_.output_grain(ffn, work, up),
      [&](std::size_t begin, std::size_t end, std::size_t thread) {
        if (gated_) products_.multiply_columns(gate, rounded[1], begin, end, thread);
        products_.multiply_columns(up, rounded[0], begin, end, thread);
        for (std::size_t row = 0; row < rows; ++row)
          activate(buffers_.gate + row * ffn + begin, buffers_.up + row * ffn + begin, end - begin);
      });
  const float* activated = gated_ ? buffers_.gate : buffers_.up;
  products_.multiply(std::array{Product{&block.down, activated, out, rows}});
}

void CpuFeedForward::activate(float* gate, float* up, std::size_t n) const {
  const kernels::KernelTable& k = products_.kernels();
  switch (activation_) {
    case Activation::kSilu:
      gated_ ? k.silu_multiply(gate, up, n) : k.silu(up, n);
      break;
    case Activation::kGelu:
      gated_ ? k.gelu_multiply(gate, up, n) : k.gelu(up, n);
      break;
    case Activation::kRelu:  // not a number stays one
      for (std::size_t i = 0; i < n; ++i) up[i] = up[i] < 0.0F ? 0.0F : up[i];
      break;
    case Activation::kClampedSwish:
      k.clamped_swish_multiply(gate, up, n);
      break;
  }
}

}  // namespace sluice
