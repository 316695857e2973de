#include "engine/backend/cuda/device_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <utility>

#include "engine/backend/cuda/model_support.hpp"
#include "engine/backend/cuda/weight_upload.hpp"
#include "engine/base/error.hpp"

namespace sluice {
namespace {

namespace cuda = kernels::cuda;

std::int32_t number(std::size_t n) {
  return static_cast<std::int32_t>(n);
}

/// Rows of outputs begin where kernels can read 16 bytes at a time.
std::int32_t whole_vectors(std::int32_t floats) {
  return (floats + 3) / 4 * 4;
}

/// Gives everything its place behind `base`. With an upload it also brings it there; without one
/// it only counts.
class Placer {
 public:
  Placer(const DecoderWeights& weights, bool precise, std::byte* base, WeightUpload* upload)
      : source_(*weights.source), precise_(precise), base_(base), upload_(upload) {}

  std::size_t bytes() const { return next_; }

  template <class T>
  const T* place(std::span<const T> values) {
    if (values.empty()) return nullptr;
    std::byte* to = take(values.size_bytes());
    if (upload_ != nullptr) upload_->copy(to, std::as_bytes(values));
    return reinterpret_cast<const T*>(to);
  }
  const float* place(const std::vector<float>& values) { return place(std::span(values)); }

  /// A matrix that may have been placed already (a tied LM head).
  cuda::Weights place(const kernels::WeightMatrix& matrix) {
    if (matrix.data == nullptr) return {};
    if (const auto found = placed_.find(matrix.data); found != placed_.end()) return found->second;
    const cuda::Weights weights = stack({&matrix});
    placed_.emplace(matrix.data, weights);
    return weights;
  }

  /// Matrices of one type and width, one below the other, in the order that kernels read best.
  cuda::Weights stack(const std::vector<const kernels::WeightMatrix*>& matrices) {
    cuda::Weights weights;
    weights.type = type_of(*matrices.front());
    weights.cols = number(matrices.front()->cols);
    const std::size_t row_bytes = cuda::weight_row_bytes(weights.type, weights.cols);
    std::size_t rows = 0;
    for (const kernels::WeightMatrix* matrix : matrices) rows += matrix->rows;
    std::byte* to = take(rows * row_bytes);
    weights.data = to;
    weights.rows = number(rows);
    for (const kernels::WeightMatrix* matrix : matrices) {
      if (upload_ != nullptr) bring(*matrix, weights.type, to);
      to += matrix->rows * row_bytes;
    }
    weights.arranged = cuda::can_arrange(weights.type, weights.rows, weights.cols);
    if (upload_ != nullptr && weights.arranged) upload_->arrange(weights);
    return weights;
  }

  cuda::WeightType type_of(const kernels::WeightMatrix& matrix) const {
    if (precise_) return cuda::WeightType::kF32;
    if (const auto type = cuda_weight_type(matrix)) return *type;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: a weight's type has no CUDA kernel; use --device cpu or --precise",
                            source_.path().string()));
  }

 private:
  std::byte* take(std::size_t bytes) {
    std::byte* place = base_ == nullptr ? nullptr : base_ + next_;
    next_ += aligned_bytes(bytes);
    return place;
  }

  void bring(const kernels::WeightMatrix& matrix, cuda::WeightType type, std::byte* to) {
    const std::span<const std::byte> bytes(matrix.data, matrix.rows * matrix.row_bytes);
    if (type == cuda::WeightType::kF32 && matrix.encoding != kernels::WeightEncoding::kF32) {
      upload_->make(to, matrix.rows, matrix.cols * sizeof(float),
                    [&](std::byte* target, std::size_t first, std::size_t count) {
                      for (std::size_t row = 0; row < count; ++row)
                        matrix.dequantize(matrix.data + (first + row) * matrix.row_bytes,
                                          reinterpret_cast<float*>(target) + row * matrix.cols,
                                          matrix.cols);
                    });
    } else {
      upload_->copy(to, bytes);
    }
    source_.release(bytes);
  }

  const ModelSource& source_;
  bool precise_;
  std::byte* base_;
  WeightUpload* upload_;
  std::size_t next_ = 0;
  std::map<const std::byte*, cuda::Weights> placed_;
};

/// Projections with one input, as few matrices as their types allow.
JointMatrix joint(Placer& placer, const std::vector<const Projection*>& members) {
  JointMatrix result;
  result.in = number(members.front()->weight.cols);
  bool alike = true;
  for (const Projection* member : members) {
    const std::int32_t outputs = number(member->weight.rows);
    result.offsets.push_back(result.stride);
    result.stride += whole_vectors(outputs);
    alike = alike && outputs % 4 == 0 &&
            placer.type_of(member->weight) == placer.type_of(members.front()->weight);
  }
  if (members.size() == 1) result.stride = number(members.front()->weight.rows);
  if (members.size() == 1 || !alike) {
    for (std::size_t i = 0; i < members.size(); ++i)
      result.parts.push_back(
          {placer.place(members[i]->weight), placer.place(members[i]->bias), result.offsets[i]});
    return result;
  }
  std::vector<const kernels::WeightMatrix*> matrices;
  std::vector<float> bias;
  bool any_bias = false;
  for (const Projection* member : members) {
    matrices.push_back(&member->weight);
    std::vector<float> part = member->bias;
    any_bias = any_bias || !part.empty();
    part.resize(member->weight.rows, 0.0F);
    bias.insert(bias.end(), part.begin(), part.end());
  }
  if (!any_bias) bias.clear();
  result.parts.push_back({placer.stack(matrices), placer.place(bias), 0});
  return result;
}

cuda::NormWeights norm(Placer& placer, const Norm& weights, const ModelConfig& config) {
  return {placer.place(weights.weight), placer.place(weights.bias),
          config.options.norm == NormKind::kRms ? cuda::NormKind::kRms : cuda::NormKind::kLayer,
          config.norm_epsilon};
}

DeviceLayer place_layer(Placer& placer, const LayerWeights& layer, const ModelConfig& config) {
  DeviceLayer placed;
  placed.attention_norm = norm(placer, layer.attention_norm, config);
  placed.attention_post_norm = norm(placer, layer.attention_post_norm, config);
  placed.ffn_norm = norm(placer, layer.ffn_norm, config);
  placed.ffn_post_norm = norm(placer, layer.ffn_post_norm, config);
  placed.qkv = joint(placer, {&layer.q, &layer.k, &layer.v});
  placed.attention_output = joint(placer, {&layer.attention_output});
  placed.gate_up = config.options.gated ? joint(placer, {&layer.ffn.gate, &layer.ffn.up})
                                        : joint(placer, {&layer.ffn.up});
  placed.down = joint(placer, {&layer.ffn.down});
  placed.q_norm = placer.place(layer.q_norm);
  placed.k_norm = placer.place(layer.k_norm);
  placed.whole_qk_norm = config.options.qk_norm == QkNorm::kWholeVector;
  placed.sinks = placer.place(layer.sinks);
  return placed;
}

DeviceWeights place_all(Placer& placer, const DecoderWeights& weights, const ModelConfig& config) {
  DeviceWeights placed;
  placed.token_embedding = placer.place(weights.token_embedding);
  placed.position_embedding = placer.place(weights.position_embedding);
  for (const LayerWeights& layer : weights.layers)
    placed.layers.push_back(place_layer(placer, layer, config));
  placed.output_norm = norm(placer, weights.output_norm, config);
  placed.lm_head = joint(placer, {&weights.lm_head});
  for (const RopeTable& rope : weights.ropes)
    placed.ropes.push_back({placer.place(std::span(rope.frequencies)), rope.magnitude});
  return placed;
}

}  // namespace

std::size_t device_weights_bytes(const DecoderWeights& weights, const ModelConfig& config,
                                 bool precise) {
  Placer counter(weights, precise, nullptr, nullptr);
  place_all(counter, weights, config);
  return counter.bytes();
}

DeviceWeights upload_weights(const DecoderWeights& weights, const ModelConfig& config, bool precise,
                             DeviceQueue& queue) {
  DeviceBuffer memory(queue, device_weights_bytes(weights, config, precise), "the weights");
  // The memory is the queue's from here on, and so are the copies.
  WeightUpload upload(queue);
  Placer placer(weights, precise, memory.as<std::byte>(), &upload);
  DeviceWeights placed = place_all(placer, weights, config);
  upload.finish();
  placed.memory = std::move(memory);
  return placed;
}

}  // namespace sluice
