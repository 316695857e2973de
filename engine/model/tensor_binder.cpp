#include "engine/model/tensor_binder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

kernels::WeightEncoding encoding_of(DType type) {
  switch (type) {
    case DType::kF32:
      return kernels::WeightEncoding::kF32;
    case DType::kF16:
      return kernels::WeightEncoding::kF16;
    case DType::kBF16:
      return kernels::WeightEncoding::kBF16;
    case DType::kQ8_0:
      return kernels::WeightEncoding::kQ8_0;
    default:
      return kernels::WeightEncoding::kOther;
  }
}

kernels::WeightMatrix matrix_of(const TensorView& tensor, std::int64_t in, std::int64_t out) {
  kernels::WeightMatrix matrix;
  matrix.data = tensor.data.data();
  matrix.rows = static_cast<std::size_t>(out);
  matrix.cols = static_cast<std::size_t>(in);
  matrix.row_bytes = bytes_for(tensor.type, matrix.cols);
  matrix.encoding = encoding_of(tensor.type);
  matrix.dequantize = traits(tensor.type).dequantize;
  matrix.packable = packed_format_of(tensor.type);
  return matrix;
}

std::vector<float> decoded(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
  traits(tensor.type).dequantize(tensor.data.data(), values.data(), values.size());
  return values;
}

}  // namespace

kernels::PackedFormat packed_format_of(DType type) {
  using kernels::PackedFormat;
  switch (type) {
    case DType::kQ8_0:
      return PackedFormat::kQ8_0;
    case DType::kQ4_0:
      return PackedFormat::kQ4_0;
    case DType::kQ4_1:
      return PackedFormat::kQ4_1;
    case DType::kQ5_0:
      return PackedFormat::kQ5_0;
    case DType::kQ5_1:
      return PackedFormat::kQ5_1;
    case DType::kQ4_K:
      return PackedFormat::kQ4_K;
    case DType::kQ5_K:
      return PackedFormat::kQ5_K;
    case DType::kQ6_K:
      return PackedFormat::kQ6_K;
    case DType::kBF16:
      return PackedFormat::kBF16;
    case DType::kF16:
      return PackedFormat::kF16;
    default:
      return PackedFormat::kNone;
  }
}

const TensorView& TensorBinder::take(const std::string& name,
                                     const std::vector<std::int64_t>& shape) {
  const TensorView* tensor = source_.find_tensor(name);
  if (tensor == nullptr)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: the tensor {} is missing; the file is incomplete, get it again",
                            source_.path().string(), name));
  if (tensor->shape != shape)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: the tensor {} has the shape [{}] where the configuration asks for "
                            "[{}]; the file contradicts itself",
                            source_.path().string(), name, fmt::join(tensor->shape, " x "),
                            fmt::join(shape, " x ")));
  const auto block = static_cast<std::int64_t>(traits(tensor->type).block_size);
  if (shape.front() % block != 0)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: the tensor {} has rows of {} elements, but its type {} comes in "
                            "blocks of {}",
                            source_.path().string(), name, shape.front(), traits(tensor->type).name,
                            block));
  taken_.insert(name);
  return *tensor;
}

kernels::WeightMatrix TensorBinder::matrix(const std::string& name, std::int64_t in,
                                           std::int64_t out) {
  const TensorView* tensor = source_.find_tensor(name);
  const bool flat = out == 1 && tensor != nullptr && tensor->shape.size() == 1;
  return matrix_of(take(name, flat ? std::vector{in} : std::vector{in, out}), in, out);
}

std::vector<kernels::WeightMatrix> TensorBinder::stacked_matrices(const std::string& name,
                                                                  std::int64_t in, std::int64_t out,
                                                                  std::int64_t count) {
  kernels::WeightMatrix matrix = matrix_of(take(name, {in, out, count}), in, out);
  std::vector<kernels::WeightMatrix> matrices;
  for (std::int64_t i = 0; i < count; ++i) {
    matrices.push_back(matrix);
    matrix.data += matrix.rows * matrix.row_bytes;
  }
  return matrices;
}

std::vector<float> TensorBinder::table(const std::string& name, std::int64_t n,
                                       std::int64_t count) {
  return decoded(take(name, {n, count}));
}

std::vector<float> TensorBinder::vector(const std::string& name, std::int64_t n) {
  return decoded(take(name, {n}));
}

std::vector<float> TensorBinder::optional_vector(const std::string& name, std::int64_t n) {
  return has(name) ? vector(name, n) : std::vector<float>{};
}

void TensorBinder::expect_all_taken() const {
  for (const TensorView& tensor : source_.tensors())
    if (!taken_.contains(tensor.name))
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: the tensor {} has no place in this build's decoder for the "
                              "architecture; the model needs features that are not supported",
                              source_.path().string(), tensor.name));
}

}  // namespace sluice
