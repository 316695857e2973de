#include "engine/backend/cpu_decoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

std::size_t size(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

}  // namespace

CpuDecoder::CpuDecoder(const ModelConfig& config, LlamaWeights weights,
                       const kernels::KernelTable& kernels, kernels::ThreadPool& threads,
                       Position max_batch_tokens, std::int32_t max_sampled_rows)
    : config_(config),
      weights_(std::move(weights)),
      kernels_(kernels),
      threads_(threads),
      hidden_size_(size(config.hidden_size)),
      q_dim_(size(config.num_heads) * size(config.head_dim)),
      kv_dim_(size(config.kv_dim())),
      head_dim_(size(config.head_dim)),
      rope_pairs_(size(config.rope_dims) / 2),
      max_logits_rows_(size(std::min(max_batch_tokens, max_sampled_rows))) {
  const DecoderScratch sizes = decoder_scratch(config, max_batch_tokens, max_sampled_rows);
  memory_ = MappedMemory(sizes.floats(threads.threads()) * sizeof(float), "work buffers");
  auto* next = reinterpret_cast<float*>(memory_.data());
  const auto take = [&](std::size_t floats) { return std::exchange(next, next + floats); };
  hidden_ = take(sizes.hidden);
  normed_ = take(sizes.normed);
  q_ = take(sizes.q);
  k_ = take(sizes.k);
  v_ = take(sizes.v);
  attended_ = take(sizes.attended);
  gate_ = take(sizes.gate);
  up_ = take(sizes.up);
  cosines_ = take(sizes.cosines);
  sines_ = take(sizes.sines);
  logits_ = take(sizes.logits);
  per_thread_ = next;
  thread_floats_ = sizes.per_thread;
  row_slices_.reserve(size(max_batch_tokens));
}

void CpuDecoder::forward(std::span<const DecoderSlice> slices, const CpuKvPool& pool) {
  rows_ = slices.empty() ? 0 : slices.back().first_row + slices.back().tokens.size();
  if (rows_ == 0) return;
  embed(slices);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    attention_block(weights_.layers[i], slices, pool.layer(i));
    feed_forward_block(weights_.layers[i]);
  }
}

std::span<float> CpuDecoder::logits(std::span<const std::size_t> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    kernels_.rms_norm(hidden_ + rows[i] * hidden_size_, weights_.output_norm.data(),
                      config_.norm_epsilon, hidden_size_, normed_ + i * hidden_size_);
  const std::array products{Product{&weights_.lm_head, normed_, logits_}};
  multiply(products, rows.size());
  return {logits_, rows.size() * size(config_.vocab_size)};
}

// -- blocks ---------------------------------------------------------------------------------

void CpuDecoder::embed(std::span<const DecoderSlice> slices) {
  row_slices_.clear();
  for (const DecoderSlice& slice : slices)
    row_slices_.resize(row_slices_.size() + slice.tokens.size(), &slice);
  for_each_row(rows_, [&](std::size_t row) {
    const DecoderSlice& slice = *row_slices_[row];
    const std::size_t i = row - slice.first_row;
    const kernels::WeightMatrix& table = weights_.token_embedding;
    table.dequantize(table.data + size(slice.tokens[i]) * table.row_bytes,
                     hidden_ + row * hidden_size_, hidden_size_);
    kernels::rope_angles(slice.first_position + i, weights_.rope_frequencies.data(), rope_pairs_,
                         1.0, cosines_ + row * rope_pairs_, sines_ + row * rope_pairs_);
  });
}

void CpuDecoder::attention_block(const LayerWeights& layer, std::span<const DecoderSlice> slices,
                                 const kernels::KvLayer& kv) {
  norm_rows(layer.attention_norm);
  const std::array products{Product{&layer.q, normed_, q_}, Product{&layer.k, normed_, k_},
                            Product{&layer.v, normed_, v_}};
  multiply(products, rows_);
  rotate_and_store(layer, kv);
  attend(slices, kv);
  multiply_and_add(layer.attention_output, attended_);
}

void CpuDecoder::feed_forward_block(const LayerWeights& layer) {
  norm_rows(layer.ffn_norm);
  const std::size_t ffn = layer.gate.weight.rows;
  const Product gate{&layer.gate, normed_, gate_};
  const Product up{&layer.up, normed_, up_};
  threads_.for_each_chunk(ffn, output_grain(ffn, layer.gate.weight, rows_),
                          [&](std::size_t begin, std::size_t end, std::size_t thread) {
                            multiply_columns(gate, rows_, begin, end, thread);
                            multiply_columns(up, rows_, begin, end, thread);
                            for (std::size_t row = 0; row < rows_; ++row)
                              kernels_.silu_multiply(gate_ + row * ffn + begin,
                                                     up_ + row * ffn + begin, end - begin);
                          });
  multiply_and_add(layer.down, gate_);
}

// -- parts of a block -------------------------------------------------------------------------

void CpuDecoder::norm_rows(const std::vector<float>& weight) {
  for_each_row(rows_, [&](std::size_t row) {
    kernels_.rms_norm(hidden_ + row * hidden_size_, weight.data(), config_.norm_epsilon,
                      hidden_size_, normed_ + row * hidden_size_);
  });
}

void CpuDecoder::rotate_and_store(const LayerWeights& layer, const kernels::KvLayer& kv) {
  const auto layout = config_.rope_layout == RopeLayout::kNeighbours
                          ? kernels::RopePairs::kNeighbours
                          : kernels::RopePairs::kHalves;
  const auto prepare = [&](float* x, std::size_t heads, const std::vector<float>& norm,
                           std::size_t row) {
    if (!norm.empty())
      for (std::size_t h = 0; h < heads; ++h)
        kernels_.rms_norm(x + h * head_dim_, norm.data(), config_.norm_epsilon, head_dim_,
                          x + h * head_dim_);
    kernels::rope_apply(x, heads, head_dim_, rope_pairs_, layout, cosines_ + row * rope_pairs_,
                        sines_ + row * rope_pairs_);
  };
  for_each_row(rows_, [&](std::size_t row) {
    float* k = k_ + row * kv_dim_;
    prepare(q_ + row * q_dim_, q_dim_ / head_dim_, layer.q_norm, row);
    prepare(k, kv_dim_ / head_dim_, layer.k_norm, row);
    const DecoderSlice& slice = *row_slices_[row];
    const std::size_t position = slice.first_position + row - slice.first_row;
    kernels_.write_kv(kv, size(slice.blocks[position / kv.block_size]), position % kv.block_size, k,
                      v_ + row * kv_dim_);
  });
}

void CpuDecoder::attend(std::span<const DecoderSlice> slices, const kernels::KvLayer& kv) {
  // One unit of work: some rows of one slice, for the query heads of one KV head.
  const auto pieces = [](const DecoderSlice& slice) {
    return (slice.tokens.size() + kernels::kAttentionRows - 1) / kernels::kAttentionRows;
  };
  std::size_t units = 0;
  for (const DecoderSlice& slice : slices) units += pieces(slice) * kv.num_kv_heads;

  threads_.for_each_chunk(units, 1, [&](std::size_t begin, std::size_t, std::size_t thread) {
    std::size_t unit = begin;
    const DecoderSlice* slice = slices.data();
    for (; unit >= pieces(*slice) * kv.num_kv_heads; ++slice)
      unit -= pieces(*slice) * kv.num_kv_heads;
    kernels::AttentionOperands operands;
    operands.q = q_ + slice->first_row * q_dim_;
    operands.out = attended_ + slice->first_row * q_dim_;
    operands.stride = q_dim_;
    operands.num_heads = size(config_.num_heads);
    operands.scale = 1.0F / std::sqrt(static_cast<float>(head_dim_));
    operands.first_position = slice->first_position;
    operands.blocks = slice->blocks.data();
    const std::size_t row = unit / kv.num_kv_heads * kernels::kAttentionRows;
    kernels_.attention(kv, operands, unit % kv.num_kv_heads, row,
                       std::min(row + kernels::kAttentionRows, slice->tokens.size()),
                       thread_space(thread));
  });
}

// -- products ---------------------------------------------------------------------------------

void CpuDecoder::multiply(std::span<const Product> products, std::size_t rows) {
  std::size_t outputs = 0;
  for (const Product& product : products) outputs += product.projection->weight.rows;
  const std::size_t grain = output_grain(outputs, products.front().projection->weight, rows);
  threads_.for_each_chunk(outputs, grain,
                          [&](std::size_t begin, std::size_t end, std::size_t thread) {
                            std::size_t first = 0;  // output 0 of the current product
                            for (const Product& product : products) {
                              const std::size_t count = product.projection->weight.rows;
                              const std::size_t from = std::max(begin, first);
                              const std::size_t to = std::min(end, first + count);
                              if (from < to)
                                multiply_columns(product, rows, from - first, to - first, thread);
                              first += count;
                            }
                          });
}

void CpuDecoder::multiply_and_add(const Projection& projection, const float* x) {
  const Product product{&projection, x, normed_};
  const std::size_t grain = output_grain(hidden_size_, projection.weight, rows_);
  threads_.for_each_chunk(hidden_size_, grain,
                          [&](std::size_t begin, std::size_t end, std::size_t thread) {
                            multiply_columns(product, rows_, begin, end, thread);
                            for (std::size_t row = 0; row < rows_; ++row)
                              kernels_.add(hidden_ + row * hidden_size_ + begin,
                                           normed_ + row * hidden_size_ + begin, end - begin);
                          });
}

void CpuDecoder::multiply_columns(const Product& product, std::size_t rows, std::size_t begin,
                                  std::size_t end, std::size_t thread) {
  const kernels::WeightMatrix& weight = product.projection->weight;
  kernels_.matmul(weight, {product.x, weight.cols, rows, product.y, weight.rows}, begin, end,
                  thread_space(thread));
  if (product.projection->bias.empty()) return;
  for (std::size_t row = 0; row < rows; ++row)
    kernels_.add(product.y + row * weight.rows + begin, product.projection->bias.data() + begin,
                 end - begin);
}

std::size_t CpuDecoder::output_grain(std::size_t outputs, const kernels::WeightMatrix& weight,
                                     std::size_t rows) const {
  constexpr std::size_t kLine = 16;  // whole cache lines of output: threads share none
  constexpr std::size_t kWorthSharing = 64 * 1024;  // multiplications
  constexpr std::size_t kChunkBytes = 64 * 1024;
  if (rows * outputs * weight.cols < kWorthSharing) return outputs;
  // Few rows: runs of weights long enough for the memory; many rows: one decoded block.
  const std::size_t wanted = rows > 8 ? 2 * kLine : kChunkBytes / weight.row_bytes;
  const std::size_t share = outputs / (4 * static_cast<std::size_t>(threads_.threads()));
  return std::max(std::min(wanted, share) / kLine * kLine, kLine);
}

template <class F>
void CpuDecoder::for_each_row(std::size_t rows, const F& f) {
  constexpr std::size_t kWorthSharing = 8;
  if (rows < kWorthSharing) {
    for (std::size_t row = 0; row < rows; ++row) f(row);
    return;
  }
  threads_.for_each_chunk(rows, 4, [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t row = begin; row < end; ++row) f(row);
  });
}

}  // namespace sluice
