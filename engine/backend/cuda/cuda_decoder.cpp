#include "engine/backend/cuda/cuda_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace sluice {
namespace {

namespace cuda = kernels::cuda;

/// Attention of decoding rows runs in several launches where more work space were needed.
constexpr std::size_t kAttentionWorkFloats = std::size_t{32} << 20;
/// A launch's first row is a multiple of it, so that pointers stay aligned.
constexpr std::int32_t kRowsTogether = 4;

std::size_t size(std::int32_t n) {
  return static_cast<std::size_t>(n);
}

std::int32_t whole_vectors(std::int32_t floats) {
  return (floats + 3) / 4 * 4;
}

/// Floats of work space for attention of one row at so many positions.
std::size_t attention_floats_of_row(const ModelConfig& config, std::int32_t bound) {
  return std::max<std::size_t>(
      cuda::attention_workspace_floats(1, config.num_heads, config.head_dim, bound), 1);
}

/// Work space for sequences of so many positions: for all rows of a step or what is bearable, and
/// always for some.
std::size_t attention_floats(const ModelConfig& config, std::int32_t rows, std::int32_t positions) {
  const std::size_t one = attention_floats_of_row(config, bucket_for(1, positions).positions);
  return std::max(size(kRowsTogether) * one, std::min(size(rows) * one, kAttentionWorkFloats));
}

cuda::Activation activation_of(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return cuda::Activation::kGelu;
    case Activation::kClampedSwish:
      return cuda::Activation::kClampedSwish;
    default:
      return cuda::Activation::kSilu;
  }
}

}  // namespace

CudaDecoder::CudaDecoder(const ModelConfig& config, DeviceWeights weights,
                         const CudaDecoderLimits& limits, DeviceQueue& queue)
    : config_(config),
      weights_(std::move(weights)),
      limits_(limits),
      queue_(queue),
      q_dim_(config.num_heads * config.head_dim),
      pairs_(config.rope_dims / 2),
      attention_scale_(config.options.attention_scale != 0.0F
                           ? config.options.attention_scale
                           : 1.0F / std::sqrt(static_cast<float>(config.head_dim))) {
  work_ = DeviceBuffer(queue, place(config, limits, nullptr, buffers_), "the work buffers");
  place(config, limits, work_.as<std::byte>(), buffers_);
  products_ = CudaProducts(queue, buffers_.products);
}

std::size_t CudaDecoder::place(const ModelConfig& config, const CudaDecoderLimits& limits,
                               std::byte* base, Buffers& buffers) {
  std::size_t used = 0;
  const auto take = [&]<class T>(T*& pointer, std::size_t count) {
    pointer = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used += aligned_bytes(count * sizeof(T));
  };
  const std::size_t rows = size(std::max(limits.rows, limits.sampled_rows));
  const std::size_t hidden = size(config.hidden_size);
  const std::int32_t q_dim = config.num_heads * config.head_dim;
  const std::size_t pairs = size(config.rope_dims / 2);
  const std::int32_t ffn = whole_vectors(config.ffn_size);
  const std::size_t widest =
      (size(std::max({config.hidden_size, q_dim, config.ffn_size})) + 31) / 32 * 32;
  take(buffers.hidden, rows * hidden);
  take(buffers.normed, rows * hidden);
  take(buffers.ffn_normed, config.options.parallel_block ? rows * hidden : 0);
  take(buffers.block, rows * hidden);
  take(buffers.qkv, rows * size(whole_vectors(q_dim) + 2 * whole_vectors(config.kv_dim())));
  take(buffers.attended, rows * size(q_dim));
  take(buffers.gate_up, rows * size(config.options.gated ? 2 * ffn : ffn));
  take(buffers.cosines, config.ropes.size() * rows * pairs);
  take(buffers.sines, config.ropes.size() * rows * pairs);
  take(buffers.logits, size(limits.sampled_rows) * size(config.vocab_size));
  take(buffers.products.codes, rows * widest);
  take(buffers.products.scales, rows * widest / 32);
  take(buffers.products.decoded, limits.fast_prefill ? CudaProducts::decoded_elements(widest) : 0);
  return used;
}

std::size_t CudaDecoder::estimate_scratch_bytes(const ModelConfig& config,
                                                const CudaDecoderLimits& limits,
                                                std::int32_t positions) {
  Buffers unused;
  return place(config, limits, nullptr, unused) +
         attention_floats(config, limits.rows, positions) * sizeof(float);
}

void CudaDecoder::size_attention(std::int32_t positions) {
  attention_work_.reset();
  attention_work_ =
      DeviceBuffer(queue_, attention_floats(config_, limits_.rows, positions) * sizeof(float),
                   "attention's work space");
}

std::int32_t CudaDecoder::tile_rows() const {
  return cuda::prefill_tile_rows(config_.num_heads, config_.num_kv_heads);
}

void CudaDecoder::forward(const StepView& step, const DeviceKvPool& pool) {
  if (step.rows == 0) return;
  embed(step);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) run_layer(i, step, pool);
}

float* CudaDecoder::logits(const StepView& step, std::int32_t first, std::int32_t count) {
  return logits_of(step.sampled + first, count);
}

float* CudaDecoder::logits_of(const std::int32_t* rows, std::int32_t count) {
  cuda::AddNorm last;
  last.hidden = buffers_.hidden;
  last.norm = weights_.output_norm;
  last.out = {buffers_.normed, cuda::ElementType::kF32, config_.hidden_size};
  last.row_index = rows;
  last.n = config_.hidden_size;
  queue_.launch([=](cuda::Stream stream) { return cuda::add_norm(last, count, stream); });
  products_.multiply(weights_.lm_head, buffers_.normed, config_.hidden_size, buffers_.logits, count,
                     count);
  const DecoderOptions& options = config_.options;
  if (options.logit_scale != 1.0F || options.final_softcap != 0.0F) {
    queue_.launch([=, y = buffers_.logits, n = config_.vocab_size, scale = options.logit_scale,
                   cap = options.final_softcap](cuda::Stream stream) {
      return cuda::scale_and_cap(y, count, n, scale, cap, stream);
    });
  }
  return buffers_.logits;
}

// -- the graph ------------------------------------------------------------------------------------

void CudaDecoder::embed(const StepView& step) {
  queue_.launch([=, table = weights_.token_embedding, ids = step.ids, rows = step.rows,
                 scale = config_.options.embedding_scale,
                 x = buffers_.hidden](cuda::Stream stream) {
    return cuda::embed_rows(table, ids, rows, scale, false, x, stream);
  });
  if (weights_.position_embedding.data != nullptr) {
    queue_.launch([=, table = weights_.position_embedding, ids = step.row_positions,
                   rows = step.rows, x = buffers_.hidden](cuda::Stream stream) {
      return cuda::embed_rows(table, ids, rows, 1.0F, true, x, stream);
    });
  }
  for (std::size_t r = 0; r < weights_.ropes.size() && pairs_ > 0; ++r) {
    const std::size_t at = r * size(std::max(limits_.rows, limits_.sampled_rows)) * size(pairs_);
    queue_.launch([=, rope = weights_.ropes[r], positions = step.row_positions, rows = step.rows,
                   pairs = pairs_, cosines = buffers_.cosines + at,
                   sines = buffers_.sines + at](cuda::Stream stream) {
      return cuda::rope_angles(positions, rows, rope.frequencies, pairs, rope.magnitude, cosines,
                               sines, stream);
    });
  }
}

void CudaDecoder::run_layer(std::size_t index, const StepView& step, const DeviceKvPool& pool) {
  const DeviceLayer& layer = weights_.layers[index];
  const std::int32_t rows = step.rows;
  const bool parallel = config_.options.parallel_block;
  // The first layer's norm stands alone; the others come with the sum before them.
  const float* input = buffers_.normed;
  if (index == 0 || layer.attention_norm.weight == nullptr)
    input = normed_rows(layer.attention_norm, buffers_.normed, rows);
  const float* ffn_input = input;
  if (parallel && layer.ffn_norm.weight != nullptr)
    ffn_input = normed_rows(layer.ffn_norm, buffers_.ffn_normed, rows);
  else if (parallel && input == buffers_.hidden)
    // The sum of attention would change what the feed-forward part reads.
    ffn_input = normed_rows({}, buffers_.ffn_normed, rows);
  attention_block(index, input, step, pool);
  if (parallel) {
    add_block(layer.attention_post_norm, {}, rows);
  } else {
    add_block(layer.attention_post_norm, layer.ffn_norm, rows);
    ffn_input = layer.ffn_norm.weight != nullptr ? buffers_.normed : buffers_.hidden;
  }
  feed_forward(layer, ffn_input, step);
  const bool last = index + 1 == weights_.layers.size();
  add_block(layer.ffn_post_norm,
            last ? cuda::NormWeights{} : weights_.layers[index + 1].attention_norm, rows);
}

void CudaDecoder::attention_block(std::size_t index, const float* input, const StepView& step,
                                  const DeviceKvPool& pool) {
  const DeviceLayer& layer = weights_.layers[index];
  products_.multiply(layer.qkv, input, config_.hidden_size, buffers_.qkv, step.rows,
                     gemm_from(step));
  rotate_and_store(index, step, pool);
  attend(index, step, pool);
  products_.multiply(layer.attention_output, buffers_.attended, q_dim_, buffers_.block, step.rows,
                     gemm_from(step));
}

void CudaDecoder::rotate_and_store(std::size_t index, const StepView& step,
                                   const DeviceKvPool& pool) {
  const DeviceLayer& layer = weights_.layers[index];
  const LayerOptions options = config_.layer(static_cast<std::int32_t>(index));
  float* q = buffers_.qkv + layer.qkv.offsets[0];
  float* k = buffers_.qkv + layer.qkv.offsets[1];
  const std::int32_t stride = layer.qkv.stride;
  const std::int32_t rows = step.rows;
  const auto norm = [&](float* x, const float* weight, std::int32_t heads) {
    if (weight == nullptr) return;
    const std::int32_t vectors = layer.whole_qk_norm ? 1 : heads;
    const std::int32_t n = layer.whole_qk_norm ? heads * config_.head_dim : config_.head_dim;
    queue_.launch([=, epsilon = config_.norm_epsilon](cuda::Stream stream) {
      return cuda::norm_vectors(x, stride, rows, vectors, n, weight, epsilon, stream);
    });
  };
  norm(q, layer.q_norm, config_.num_heads);
  norm(k, layer.k_norm, config_.num_kv_heads);

  cuda::RotateStore operands;
  operands.q = q;
  operands.k = k;
  operands.v = buffers_.qkv + layer.qkv.offsets[2];
  operands.q_stride = operands.kv_stride = stride;
  operands.num_heads = config_.num_heads;
  operands.layout = config_.options.rope_layout == RopeLayout::kNeighbours
                        ? cuda::RopePairs::kNeighbours
                        : cuda::RopePairs::kHalves;
  if (options.rope >= 0 && pairs_ > 0) {
    const std::size_t at =
        size(options.rope) * size(std::max(limits_.rows, limits_.sampled_rows)) * size(pairs_);
    operands.pairs = pairs_;
    operands.cosines = buffers_.cosines + at;
    operands.sines = buffers_.sines + at;
  }
  const std::size_t group = pool.shape().group_of(index);
  const cuda::RowPlaces places{step.row_positions, step.sequences, step.tables[group],
                               step.table_stride};
  queue_.launch([=, kv = pool.layer(index)](cuda::Stream stream) {
    return cuda::rotate_and_store(operands, kv, places, rows, stream);
  });
}

void CudaDecoder::attend(std::size_t index, const StepView& step, const DeviceKvPool& pool) {
  const DeviceLayer& layer = weights_.layers[index];
  const LayerOptions options = config_.layer(static_cast<std::int32_t>(index));
  cuda::Attention operands;
  operands.q = buffers_.qkv + layer.qkv.offsets[0];
  operands.q_stride = layer.qkv.stride;
  operands.out = {buffers_.attended, cuda::ElementType::kF32, q_dim_};
  operands.num_heads = config_.num_heads;
  operands.scale = attention_scale_;
  operands.window = options.window;
  operands.keep_first = options.keep_first;
  operands.softcap = config_.options.attention_softcap;
  operands.sinks = layer.sinks;
  const cuda::KvLayer kv = pool.layer(index);
  const cuda::RowPlaces places{step.row_positions, step.sequences,
                               step.tables[pool.shape().group_of(index)], step.table_stride};
  attend_decoding(operands, kv, places, step);
  if (step.num_tiles == 0) return;
  queue_.launch([=, tiles = step.tiles, count = step.num_tiles](cuda::Stream stream) {
    return cuda::attention_prefill(operands, kv, places, tiles, count, stream);
  });
}

void CudaDecoder::attend_decoding(const cuda::Attention& operands, const cuda::KvLayer& kv,
                                  const cuda::RowPlaces& places, const StepView& step) {
  const std::int32_t bound = bucket_for(1, step.positions).positions;
  const std::size_t fitting = attention_work_.bytes() / sizeof(float) /
                              attention_floats_of_row(config_, bound) / size(kRowsTogether);
  const auto at_once =
      static_cast<std::int32_t>(std::clamp<std::size_t>(fitting, 1, 256) * size(kRowsTogether));
  for (std::int32_t first = 0; first < step.decode_rows; first += at_once) {
    const std::int32_t rows = std::min(at_once, step.decode_rows - first);
    cuda::Attention part = operands;
    part.q += size(first) * size(operands.q_stride);
    part.out.data = static_cast<float*>(operands.out.data) + size(first) * size(q_dim_);
    cuda::RowPlaces where = places;
    where.positions += first;
    where.sequences += first;
    queue_.launch([=, work = attention_work_.as<float>()](cuda::Stream stream) {
      return cuda::attention_decode(part, kv, where, rows, bound, work, stream);
    });
  }
}

void CudaDecoder::feed_forward(const DeviceLayer& layer, const float* input, const StepView& step) {
  const JointMatrix& joint = layer.gate_up;
  products_.multiply(joint, input, config_.hidden_size, buffers_.gate_up, step.rows,
                     gemm_from(step));
  float* gate = buffers_.gate_up;
  const float* up = config_.options.gated ? gate + joint.offsets[1] : nullptr;
  const cuda::Rows out{gate, cuda::ElementType::kF32, joint.stride};
  queue_.launch([=, activation = activation_of(config_.options.activation), stride = joint.stride,
                 rows = step.rows, n = layer.down.in](cuda::Stream stream) {
    return cuda::activate(activation, gate, up, stride, rows, n, out, stream);
  });
  products_.multiply(layer.down, gate, joint.stride, buffers_.block, step.rows, gemm_from(step));
}

// -- norms and sums -------------------------------------------------------------------------------

void CudaDecoder::add_block(const cuda::NormWeights& post_norm, const cuda::NormWeights& norm,
                            std::int32_t rows) {
  cuda::AddNorm sum;
  sum.hidden = buffers_.hidden;
  sum.block = buffers_.block;
  sum.residual_scale = config_.options.residual_scale;
  sum.post_norm = post_norm;
  sum.norm = norm;
  if (norm.weight != nullptr)
    sum.out = {buffers_.normed, cuda::ElementType::kF32, config_.hidden_size};
  sum.n = config_.hidden_size;
  queue_.launch([=](cuda::Stream stream) { return cuda::add_norm(sum, rows, stream); });
}

const float* CudaDecoder::normed_rows(const cuda::NormWeights& norm, float* buffer,
                                      std::int32_t rows) {
  if (norm.weight == nullptr && buffer == buffers_.normed) return buffers_.hidden;
  cuda::AddNorm only;
  only.hidden = buffers_.hidden;
  only.norm = norm;
  only.out = {buffer, cuda::ElementType::kF32, config_.hidden_size};
  only.n = config_.hidden_size;
  queue_.launch([=](cuda::Stream stream) { return cuda::add_norm(only, rows, stream); });
  return buffer;
}

std::int32_t CudaDecoder::gemm_from(const StepView& step) const {
  return limits_.fast_prefill ? step.decode_rows : step.rows;
}

}  // namespace sluice
