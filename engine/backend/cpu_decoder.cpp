#include "engine/backend/cpu_decoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kernels/cpu/rope.hpp"

namespace sluice {
namespace {

std::size_t size(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

float attention_scale(const ModelConfig& config) {
  if (config.options.attention_scale != 0.0F) return config.options.attention_scale;
  return 1.0F / std::sqrt(static_cast<float>(config.head_dim));
}

/// Units of attention in a slice for each KV head, unless a single row is divided further.
std::size_t pieces(const DecoderSlice& slice) {
  return (slice.tokens.size() + kernels::kAttentionRows - 1) / kernels::kAttentionRows;
}

/// Row `row` of a table of vectors.
void decode_row(const kernels::WeightMatrix& table, std::size_t row, float* out) {
  table.dequantize(table.data + row * table.row_bytes, out, table.cols);
}

}  // namespace

CpuDecoder::CpuDecoder(const ModelConfig& config, DecoderWeights weights,
                       const kernels::KernelTable& kernels, kernels::ThreadPool& threads,
                       Position max_batch_tokens, std::int32_t max_sampled_rows)
    : config_(config),
      weights_(std::move(weights)),
      kernels_(kernels),
      hidden_size_(size(config.hidden_size)),
      q_dim_(size(config.num_heads) * size(config.head_dim)),
      kv_dim_(size(config.kv_dim())),
      head_dim_(size(config.head_dim)),
      rope_pairs_(size(config.rope_dims) / 2),
      attention_scale_(attention_scale(config)),
      max_rows_(size(max_batch_tokens)),
      max_logits_rows_(size(std::min(max_batch_tokens, max_sampled_rows))) {
  const DecoderScratch sizes = decoder_scratch(config, max_batch_tokens, max_sampled_rows);
  memory_ = MappedMemory(sizes.floats(threads.threads()) * sizeof(float), "work buffers");
  auto* next = reinterpret_cast<float*>(memory_.data());
  const auto take = [&](std::size_t floats) { return std::exchange(next, next + floats); };
  hidden_ = take(sizes.hidden);
  normed_ = take(sizes.normed);
  ffn_normed_ = take(sizes.ffn_normed);
  block_ = take(sizes.block);
  q_ = take(sizes.q);
  k_ = take(sizes.k);
  v_ = take(sizes.v);
  attended_ = take(sizes.attended);
  parts_ = take(sizes.parts);
  max_parts_ = sizes.parts / kernels::attention_part_floats(size(config.num_heads), head_dim_);
  FeedForwardBuffers buffers;
  buffers.gate = take(sizes.gate);
  buffers.up = take(sizes.up);
  buffers.routed = take(sizes.routed);
  buffers.scores = take(sizes.scores);
  cosines_ = take(sizes.cosines);
  sines_ = take(sizes.sines);
  logits_ = take(sizes.logits);
  float* encoder_k = take(sizes.encoder_k);
  float* encoder_v = take(sizes.encoder_v);
  float* rounded = take(sizes.rounded);
  products_.emplace(kernels, threads, next, sizes.per_thread, std::span(rounded, sizes.rounded));
  feed_forward_.emplace(config_, *products_, buffers, max_rows_);
  if (config_.has_encoder())
    encoder_.emplace(
        config_, weights_, *products_, *feed_forward_,
        EncoderBuffers{hidden_, normed_, block_, q_, k_, v_, attended_, encoder_k, encoder_v},
        max_rows_);
  row_slices_.reserve(max_rows_);
}

void CpuDecoder::forward(std::span<const DecoderSlice> slices, const CpuKvPool& pool) {
  rows_ = slices.empty() ? 0 : slices.back().first_row + slices.back().tokens.size();
  if (rows_ == 0) return;
  embed(slices);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i)
    run_layer(i, slices, {pool.layer(i), pool.group_of(i)});
}

std::span<float> CpuDecoder::logits(std::span<const std::size_t> rows) {
  const DecoderOptions& options = config_.options;
  for (std::size_t i = 0; i < rows.size(); ++i)
    norm_row(weights_.output_norm, hidden_ + rows[i] * hidden_size_, normed_ + i * hidden_size_);
  products_->multiply(std::array{Product{&weights_.lm_head, normed_, logits_, rows.size()}});
  const std::size_t vocab = size(config_.vocab_size);
  if (options.logit_scale != 1.0F || options.final_softcap != 0.0F) {
    products_->for_each_row(rows.size(), [&](std::size_t row) {
      float* out = logits_ + row * vocab;
      if (options.logit_scale != 1.0F) kernels_.scale(out, options.logit_scale, vocab);
      if (options.final_softcap != 0.0F) kernels_.soft_cap(out, options.final_softcap, vocab);
    });
  }
  return {logits_, rows.size() * vocab};
}

// -- the graph ------------------------------------------------------------------------------------

void CpuDecoder::embed(std::span<const DecoderSlice> slices) {
  row_slices_.clear();
  for (const DecoderSlice& slice : slices)
    row_slices_.resize(row_slices_.size() + slice.tokens.size(), &slice);
  products_->for_each_row(rows_, [&](std::size_t row) {
    const DecoderSlice& slice = *row_slices_[row];
    const std::size_t i = row - slice.first_row;
    const std::size_t position = slice.first_position + i;
    float* x = hidden_ + row * hidden_size_;
    decode_row(weights_.token_embedding, size(slice.tokens[i]), x);
    if (config_.options.embedding_scale != 1.0F)
      kernels_.scale(x, config_.options.embedding_scale, hidden_size_);
    if (weights_.position_embedding.data != nullptr) {
      float* learned = normed_ + row * hidden_size_;
      decode_row(weights_.position_embedding, position, learned);
      kernels_.add(x, learned, hidden_size_);
    }
    for (std::size_t r = 0; r < weights_.ropes.size(); ++r) {
      const std::size_t at = (r * max_rows_ + row) * rope_pairs_;
      kernels::rope_angles(position, weights_.ropes[r].frequencies.data(), rope_pairs_,
                           weights_.ropes[r].magnitude, cosines_ + at, sines_ + at);
    }
  });
}

void CpuDecoder::run_layer(std::size_t index, std::span<const DecoderSlice> slices,
                           const LayerKv& place) {
  const LayerWeights& layer = weights_.layers[index];
  const bool parallel = config_.options.parallel_block;
  const float* input = normed_rows(layer.attention_norm, normed_);
  const float* ffn_input = input;
  if (parallel && layer.ffn_norm.present()) ffn_input = normed_rows(layer.ffn_norm, ffn_normed_);
  attention_block(index, input, slices, place);
  add_block(layer.attention_post_norm);
  if (layer.cross.present()) {
    cross_attention_block(layer.cross, normed_rows(layer.cross.norm, normed_), slices, place);
    add_block({});
  }
  if (!parallel) ffn_input = normed_rows(layer.ffn_norm, normed_);
  feed_forward_->run(layer, ffn_input, rows_, block_);
  add_block(layer.ffn_post_norm);
}

void CpuDecoder::attention_block(std::size_t index, const float* input,
                                 std::span<const DecoderSlice> slices, const LayerKv& place) {
  const LayerWeights& layer = weights_.layers[index];
  products_->multiply(std::array{Product{&layer.q, input, q_, rows_},
                                 Product{&layer.k, input, k_, rows_},
                                 Product{&layer.v, input, v_, rows_}});
  rotate_and_store(index, place);
  attend(index, slices, place);
  products_->multiply(std::array{Product{&layer.attention_output, attended_, block_, rows_}});
}

void CpuDecoder::cross_attention_block(const CrossAttention& cross, const float* input,
                                       std::span<const DecoderSlice> slices, const LayerKv& place) {
  products_->multiply(std::array{Product{&cross.q, input, q_, rows_}});
  kernels::AttentionOperands operands;
  operands.scale = attention_scale_;
  attend_slices(operands, slices, place, true);
  products_->multiply(std::array{Product{&cross.output, attended_, block_, rows_}});
}

// -- attention ------------------------------------------------------------------------------------

void CpuDecoder::rotate_and_store(std::size_t index, const LayerKv& place) {
  const kernels::KvLayer& kv = place.kv;
  const LayerWeights& layer = weights_.layers[index];
  const std::int32_t rope = config_.layer(static_cast<std::int32_t>(index)).rope;
  const auto layout = config_.options.rope_layout == RopeLayout::kNeighbours
                          ? kernels::RopePairs::kNeighbours
                          : kernels::RopePairs::kHalves;
  const auto prepare = [&](float* x, std::size_t n, const std::vector<float>& norm,
                           std::size_t row) {
    norm_heads(norm, x, n);
    if (rope < 0) return;
    const std::size_t at = (size(rope) * max_rows_ + row) * rope_pairs_;
    kernels::rope_apply(x, n / head_dim_, head_dim_, rope_pairs_, layout, cosines_ + at,
                        sines_ + at);
  };
  products_->for_each_row(rows_, [&](std::size_t row) {
    float* k = k_ + row * kv_dim_;
    prepare(q_ + row * q_dim_, q_dim_, layer.q_norm, row);
    prepare(k, kv_dim_, layer.k_norm, row);
    if (projection_.active()) {
      projection_.project_queries(index, q_ + row * q_dim_, q_dim_ / head_dim_);
      projection_.project_keys(index, k);
    }
    const DecoderSlice& slice = *row_slices_[row];
    const std::size_t position = slice.first_position + row - slice.first_row;
    const BlockId block = slice.table(place.group)[position / kv.block_size];
    kernels_.write_kv(kv, size(block), position % kv.block_size, k, v_ + row * kv_dim_);
  });
}

void CpuDecoder::attend(std::size_t index, std::span<const DecoderSlice> slices,
                        const LayerKv& place) {
  kernels::AttentionOperands operands;
  operands.scale = attention_scale_;
  const LayerOptions& sees = config_.layer(static_cast<std::int32_t>(index));
  operands.window = size(sees.window);
  operands.keep_first = size(sees.keep_first);
  if (operands.window == 0 && sparse_.active()) {
    operands.window = size(sparse_.window);
    operands.every = size(sparse_.stride);
  }
  operands.softcap = config_.options.attention_softcap;
  const std::vector<float>& sinks = weights_.layers[index].sinks;
  operands.sinks = sinks.empty() ? nullptr : sinks.data();
  operands.bias = weights_.bias.present() ? weights_.bias.table.data() : nullptr;
  operands.bias_reach = weights_.bias.reach;
  attend_slices(operands, slices, place, false);
}

std::size_t CpuDecoder::parts_of_a_row(std::span<const DecoderSlice> slices,
                                       std::size_t heads) const {
  std::size_t units = 0;
  std::size_t single = 0;
  for (const DecoderSlice& slice : slices) {
    units += pieces(slice) * heads;
    if (slice.tokens.size() == 1) ++single;
  }
  // It pays when the units leave threads without work.
  const auto threads = size(products_->threads().threads());
  if (single == 0 || units >= 2 * threads || units % threads == 0) return 1;
  return std::max<std::size_t>(max_parts_ / single, 1);
}

kernels::AttentionOperands CpuDecoder::operands_of(const DecoderSlice& slice,
                                                   const SharedAttention& shared) const {
  kernels::AttentionOperands operands = shared.operands;
  operands.stride = q_dim_;
  operands.num_heads = size(config_.num_heads);
  operands.q = q_ + slice.first_row * q_dim_;
  operands.out = attended_ + slice.first_row * q_dim_;
  operands.first_position = slice.first_position;
  operands.blocks = slice.table(shared.place.group).data();
  operands.first_seen = slice.encoder_positions;
  operands.seen_end = shared.cross ? slice.encoder_positions : 0;
  return operands;
}

std::size_t CpuDecoder::parts_of(const DecoderSlice& slice, const SharedAttention& shared) const {
  if (shared.most_parts == 1 || slice.tokens.size() != 1) return 1;
  const kernels::SpanRange spans =
      kernels::attention_spans(operands_of(slice, shared), slice.first_position);
  return std::min(spans.end - spans.begin, shared.most_parts);
}

float* CpuDecoder::parts_at(std::size_t single, std::size_t head,
                            const SharedAttention& shared) const {
  const std::size_t heads = shared.place.kv.num_kv_heads;
  return parts_ + (single * heads + head) * shared.most_parts *
                      kernels::attention_part_floats(size(config_.num_heads) / heads, head_dim_);
}

void CpuDecoder::attend_slices(const kernels::AttentionOperands& operands,
                               std::span<const DecoderSlice> slices, const LayerKv& place,
                               bool cross) {
  const std::size_t heads = place.kv.num_kv_heads;
  const SharedAttention shared{operands, place, cross, parts_of_a_row(slices, heads)};
  const auto units_of = [&](const DecoderSlice& slice) {
    return std::max(pieces(slice), parts_of(slice, shared)) * heads;
  };
  std::size_t units = 0;
  for (const DecoderSlice& slice : slices) units += units_of(slice);
  products_->threads().for_each_chunk(
      units, 1, [&](std::size_t unit, std::size_t, std::size_t thread) {
        const DecoderSlice* slice = slices.data();
        std::size_t single = 0;
        for (std::size_t n = units_of(*slice); unit >= n; n = units_of(*slice)) {
          unit -= n;
          if (slice->tokens.size() == 1) ++single;
          ++slice;
        }
        attend_unit(*slice, unit, single, thread, shared);
      });
  if (shared.most_parts > 1) merge_parts(slices, shared);
}

void CpuDecoder::attend_unit(const DecoderSlice& slice, std::size_t unit, std::size_t single,
                             std::size_t thread, const SharedAttention& shared) {
  const kernels::KvLayer& kv = shared.place.kv;
  const kernels::AttentionOperands operands = operands_of(slice, shared);
  const std::size_t head = unit % kv.num_kv_heads;
  const std::size_t at = unit / kv.num_kv_heads;
  float* space = products_->thread_space(thread);
  const std::size_t count = parts_of(slice, shared);
  if (count == 1) {
    const std::size_t row = at * kernels::kAttentionRows;
    kernels_.attention(kv, operands, head, row,
                       std::min(row + kernels::kAttentionRows, slice.tokens.size()), space);
    return;
  }
  // The first part has all spans that the others leave.
  const std::size_t end =
      kernels::attention_spans(operands, slice.first_position).end - count + at + 1;
  const std::size_t floats =
      kernels::attention_part_floats(operands.num_heads / kv.num_kv_heads, kv.head_dim);
  kernels_.attention_part(kv, operands, head, 0, {at == 0 ? 0 : end - 1, end},
                          parts_at(single, head, shared) + at * floats, space);
}

void CpuDecoder::merge_parts(std::span<const DecoderSlice> slices, const SharedAttention& shared) {
  const kernels::KvLayer& kv = shared.place.kv;
  std::size_t single = 0;
  for (const DecoderSlice& slice : slices) {
    if (slice.tokens.size() != 1) continue;
    const std::size_t count = parts_of(slice, shared);
    for (std::size_t head = 0; head < kv.num_kv_heads && count > 1; ++head)
      kernels_.attention_merge(kv, operands_of(slice, shared), head, 0,
                               parts_at(single, head, shared), count);
    ++single;
  }
}

// -- norms and sums -------------------------------------------------------------------------------

const float* CpuDecoder::normed_rows(const Norm& norm, float* buffer) {
  if (!norm.present()) return hidden_;
  products_->for_each_row(rows_, [&](std::size_t row) {
    norm_row(norm, hidden_ + row * hidden_size_, buffer + row * hidden_size_);
  });
  return buffer;
}

void CpuDecoder::add_block(const Norm& post_norm) {
  const float scale = config_.options.residual_scale;
  products_->for_each_row(rows_, [&](std::size_t row) {
    float* x = hidden_ + row * hidden_size_;
    float* block = block_ + row * hidden_size_;
    if (post_norm.present()) norm_row(post_norm, block, block);
    if (scale == 1.0F)
      kernels_.add(x, block, hidden_size_);
    else
      kernels_.add_scaled(x, block, scale, hidden_size_);
  });
}

void CpuDecoder::norm_row(const Norm& norm, const float* x, float* y) const {
  const float* bias = norm.bias.empty() ? nullptr : norm.bias.data();
  if (config_.options.norm == NormKind::kLayer)
    kernels_.layer_norm(x, norm.weight.data(), bias, config_.norm_epsilon, hidden_size_, y);
  else
    kernels_.rms_norm(x, norm.weight.data(), config_.norm_epsilon, hidden_size_, y);
}

/// One norm for each head or one for all n elements; the weight's length says which.
void CpuDecoder::norm_heads(const std::vector<float>& weight, float* x, std::size_t n) const {
  if (weight.empty()) return;
  for (std::size_t i = 0; i < n; i += weight.size())
    kernels_.rms_norm(x + i, weight.data(), config_.norm_epsilon, weight.size(), x + i);
}

}  // namespace sluice
