#include "engine/backend/cuda/model_support.hpp"

#include <fmt/format.h>

#include <array>

namespace sluice {
namespace {

using kernels::cuda::KvType;
using kernels::cuda::WeightType;

constexpr std::int32_t kMaxVocabulary = 1 << 18;
constexpr std::int32_t kMaxHeadDim = 256;
constexpr std::int32_t kMaxHidden = 65536;

constexpr std::array kWeightTypes = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
                                     DType::kQ4_0, DType::kQ4_K, DType::kQ6_K};

std::string why_not_shape(const ModelConfig& config) {
  if (config.experts.count > 0) return "mixtures of experts are computed on the CPU only";
  if (config.vocab_size > kMaxVocabulary)
    return fmt::format(
        "its vocabulary of {} tokens is larger than the {} that sampling on the "
        "device takes",
        config.vocab_size, kMaxVocabulary);
  if (config.head_dim > kMaxHeadDim)
    return fmt::format("its heads of {} elements are larger than the {} that attention takes",
                       config.head_dim, kMaxHeadDim);
  if (config.hidden_size > kMaxHidden)
    return fmt::format("its vectors of {} elements are longer than the {} that norms take",
                       config.hidden_size, kMaxHidden);
  if (config.options.activation == Activation::kClampedSwish && !config.options.gated)
    return "its activation has no form without a gate";
  return {};
}

std::string why_not_weights(const ModelSource& source) {
  for (const TensorView& tensor : source.tensors()) {
    if (tensor.shape.size() < 2 || cuda_weight_type(tensor.type)) continue;
    return fmt::format(
        "the tensor {} has the type {}, which no kernel reads (f32, f16, bf16, "
        "q8_0, q4_0, q4_K and q6_K have one); convert the model with sluice "
        "quantize, or decode the weights to f32 with --precise",
        tensor.name, traits(tensor.type).name);
  }
  return {};
}

std::string why_not_kv(const ModelConfig& config, const KvTypes& types) {
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
    const auto [k, v] = types.of_layer(layer);
    for (const DType type : {k, v}) {
      if (cuda_kv_type(type)) continue;
      return fmt::format("a KV cache in {} has no kernel; use --kv-type f16, bf16, f32 or q8_0",
                         traits(type).name);
    }
  }
  if (types.key_rank > 0) return "keys of a lower rank are computed on the CPU only";
  return {};
}

}  // namespace

std::optional<WeightType> cuda_weight_type(DType type) {
  switch (type) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kF16:
      return WeightType::kF16;
    case DType::kBF16:
      return WeightType::kBF16;
    case DType::kQ8_0:
      return WeightType::kQ8_0;
    case DType::kQ4_0:
      return WeightType::kQ4_0;
    case DType::kQ4_K:
      return WeightType::kQ4_K;
    case DType::kQ6_K:
      return WeightType::kQ6_K;
    default:
      return std::nullopt;
  }
}

std::optional<WeightType> cuda_weight_type(const kernels::WeightMatrix& matrix) {
  // A bound matrix knows its type by the function that decodes it.
  for (const DType type : kWeightTypes)
    if (traits(type).dequantize == matrix.dequantize) return cuda_weight_type(type);
  return std::nullopt;
}

std::optional<KvType> cuda_kv_type(DType type) {
  switch (type) {
    case DType::kF32:
      return KvType::kF32;
    case DType::kF16:
      return KvType::kF16;
    case DType::kBF16:
      return KvType::kBF16;
    case DType::kQ8_0:
      return KvType::kQ8_0;
    default:
      return std::nullopt;
  }
}

std::string why_not_on_cuda(const ModelSource& source, const ModelConfig& config,
                            const KvTypes& kv_types, bool precise) {
  if (std::string reason = why_not_shape(config); !reason.empty()) return reason;
  if (std::string reason = why_not_kv(config, kv_types); !reason.empty()) return reason;
  return precise ? std::string() : why_not_weights(source);
}

}  // namespace sluice
