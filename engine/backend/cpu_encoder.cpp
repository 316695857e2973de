#include "engine/backend/cpu_encoder.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/model/decoder_scratch.hpp"

namespace sluice {
namespace {

std::size_t size(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

std::size_t blocks_for(std::size_t positions) {
  return (positions + kEncoderBlock - 1) / kEncoderBlock;
}

}  // namespace

CpuEncoder::CpuEncoder(const ModelConfig& config, const DecoderWeights& weights,
                       CpuProducts& products, CpuFeedForward& feed_forward,
                       const EncoderBuffers& buffers, std::size_t max_rows)
    : config_(config),
      weights_(weights),
      products_(products),
      feed_forward_(feed_forward),
      buffers_(buffers),
      hidden_size_(size(config.hidden_size)),
      q_dim_(size(config.num_heads) * size(config.head_dim)),
      max_rows_(max_rows),
      table_(blocks_for(max_rows)) {
  kv_.k = reinterpret_cast<std::byte*>(buffers.all_k);
  kv_.v = reinterpret_cast<std::byte*>(buffers.all_v);
  kv_.k_encoding = kv_.v_encoding = kernels::KvEncoding::kF32;
  kv_.num_kv_heads = size(config.num_kv_heads);
  kv_.head_dim = size(config.head_dim);
  kv_.block_size = kEncoderBlock;
  std::iota(table_.begin(), table_.end(), BlockId{0});
  places_.reserve(max_rows);
  row_places_.reserve(max_rows);
}

void CpuEncoder::run(std::span<const EncoderInput> inputs, const CpuKvPool& pool) {
  while (!inputs.empty()) {
    inputs = inputs.subspan(place(inputs));
    encode();
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) write_cross(i, pool);
  }
}

std::size_t CpuEncoder::place(std::span<const EncoderInput> inputs) {
  places_.clear();
  row_places_.clear();
  rows_ = 0;
  std::size_t blocks = 0;
  for (const EncoderInput& input : inputs) {
    const std::size_t more = blocks_for(input.tokens.size());
    if (blocks + more > table_.size() || rows_ + input.tokens.size() > max_rows_) break;
    row_places_.resize(rows_ + input.tokens.size(), places_.size());
    places_.push_back({&input, rows_, blocks});
    rows_ += input.tokens.size();
    blocks += more;
  }
  return places_.size();
}

// -- the graph ------------------------------------------------------------------------------------

void CpuEncoder::encode() {
  const kernels::WeightMatrix& embedding = weights_.token_embedding;
  products_.for_each_row(rows_, [&](std::size_t row) {
    const Place& place = places_[row_places_[row]];
    const std::size_t token = size(place.input->tokens[row - place.first_row]);
    embedding.dequantize(embedding.data + token * embedding.row_bytes,
                         buffers_.hidden + row * hidden_size_, hidden_size_);
  });
  for (const LayerWeights& layer : weights_.encoder.layers) run_layer(layer);
  normed_rows(weights_.encoder.output_norm);
}

void CpuEncoder::run_layer(const LayerWeights& layer) {
  store(layer);
  attend();
  products_.multiply(
      std::array{Product{&layer.attention_output, buffers_.attended, buffers_.block, rows_}});
  add_block();
  feed_forward_.run(layer, normed_rows(layer.ffn_norm), rows_, buffers_.block);
  add_block();
}

void CpuEncoder::store(const LayerWeights& layer) {
  const float* input = normed_rows(layer.attention_norm);
  products_.multiply(std::array{Product{&layer.q, input, buffers_.q, rows_},
                                Product{&layer.k, input, buffers_.k, rows_},
                                Product{&layer.v, input, buffers_.v, rows_}});
  const std::size_t kv_dim = size(config_.kv_dim());
  products_.for_each_row(rows_, [&](std::size_t row) {
    const Place& place = places_[row_places_[row]];
    const std::size_t position = row - place.first_row;
    products_.kernels().write_kv(kv_, place.first_block + position / kEncoderBlock,
                                 position % kEncoderBlock, buffers_.k + row * kv_dim,
                                 buffers_.v + row * kv_dim);
  });
}

void CpuEncoder::attend() {
  // One unit of work: some rows of one input, for one head.
  const auto pieces = [](const Place& place) {
    return (place.input->tokens.size() + kernels::kAttentionRows - 1) / kernels::kAttentionRows;
  };
  std::size_t units = 0;
  for (const Place& place : places_) units += pieces(place) * kv_.num_kv_heads;

  kernels::AttentionOperands shared;
  shared.stride = q_dim_;
  shared.num_heads = size(config_.num_heads);
  shared.scale = config_.options.attention_scale;
  shared.bias = weights_.encoder.bias.table.data();
  shared.bias_reach = weights_.encoder.bias.reach;

  const auto attend_unit = [&](std::size_t unit, std::size_t, std::size_t thread) {
    const Place* place = places_.data();
    for (; unit >= pieces(*place) * kv_.num_kv_heads; ++place)
      unit -= pieces(*place) * kv_.num_kv_heads;
    kernels::AttentionOperands operands = shared;
    operands.q = buffers_.q + place->first_row * q_dim_;
    operands.out = buffers_.attended + place->first_row * q_dim_;
    operands.blocks = table_.data() + place->first_block;
    operands.seen_end = place->input->tokens.size();
    const std::size_t row = unit / kv_.num_kv_heads * kernels::kAttentionRows;
    products_.kernels().attention(
        kv_, operands, unit % kv_.num_kv_heads, row,
        std::min(row + kernels::kAttentionRows, place->input->tokens.size()),
        products_.thread_space(thread));
  };
  products_.threads().for_each_chunk(units, 1, attend_unit);
}

void CpuEncoder::write_cross(std::size_t layer, const CpuKvPool& pool) {
  const CrossAttention& cross = weights_.layers[layer].cross;
  products_.multiply(std::array{Product{&cross.k, buffers_.normed, buffers_.k, rows_},
                                Product{&cross.v, buffers_.normed, buffers_.v, rows_}});
  const kernels::KvLayer kv = pool.layer(layer);
  const std::size_t kv_dim = size(config_.kv_dim());
  products_.for_each_row(rows_, [&](std::size_t row) {
    const Place& place = places_[row_places_[row]];
    const std::size_t position = row - place.first_row;
    if (position < place.input->first_position) return;  // others may read it right now
    const BlockId block = place.input->blocks[position / kv.block_size];
    products_.kernels().write_kv(kv, size(block), position % kv.block_size,
                                 buffers_.k + row * kv_dim, buffers_.v + row * kv_dim);
  });
}

// -- norms and sums -------------------------------------------------------------------------------

const float* CpuEncoder::normed_rows(const Norm& norm) {
  products_.for_each_row(rows_, [&](std::size_t row) {
    products_.kernels().rms_norm(buffers_.hidden + row * hidden_size_, norm.weight.data(),
                                 config_.norm_epsilon, hidden_size_,
                                 buffers_.normed + row * hidden_size_);
  });
  return buffers_.normed;
}

void CpuEncoder::add_block() {
  products_.for_each_row(rows_, [&](std::size_t row) {
    products_.kernels().add(buffers_.hidden + row * hidden_size_,
                            buffers_.block + row * hidden_size_, hidden_size_);
  });
}

}  // namespace sluice
