#include "engine/convert/quantize_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/convert/model_metadata.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

/// Values that are converted between two writes; about 32 MB as floats.
constexpr std::int64_t kChunkElements = std::int64_t{1} << 23;

/// Elements of q or k biases in the order that pairs neighbours, as OutputTensor describes.
void rotate_elements(std::vector<float>& values, std::int64_t head_dim) {
  const std::vector<float> from = values;
  const auto n = static_cast<std::size_t>(head_dim);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t in_head = i % n;
    values[i] = from[i - in_head + in_head / 2 + (in_head % 2) * (n / 2)];
  }
}

/// Converts one tensor after the other, rows in parallel.
class Quantizer {
 public:
  Quantizer(GgufFileWriter& writer, kernels::ThreadPool& pool, const QuantizeProgress& progress,
            std::uint64_t total_bytes)
      : writer_(writer), pool_(pool), progress_(progress), total_bytes_(total_bytes) {
    rows_.resize(static_cast<std::size_t>(pool.threads()));
  }

  void convert(const OutputTensor& tensor) {
    const std::int64_t rows = tensor.rows();
    const std::int64_t step = std::max<std::int64_t>(1, kChunkElements / tensor.row_length());
    for (auto& row : rows_) row.resize(static_cast<std::size_t>(tensor.row_length()));
    for (std::int64_t first = 0; first < rows; first += step) {
      convert_rows(tensor, first, std::min(step, rows - first));
      writer_.append(out_);
      report();
    }
  }

 private:
  void convert_rows(const OutputTensor& tensor, std::int64_t first, std::int64_t count) {
    const std::size_t row_bytes =
        bytes_for(tensor.info.type, static_cast<std::size_t>(tensor.row_length()));
    out_.resize(row_bytes * static_cast<std::size_t>(count));
    std::atomic<bool> all_finite{true};
    const auto body = [&](std::size_t begin, std::size_t end, std::size_t thread) {
      for (std::size_t i = begin; i < end; ++i) {
        const bool finite = convert_row(tensor, first + static_cast<std::int64_t>(i), rows_[thread],
                                        out_.data() + i * row_bytes);
        if (!finite) all_finite = false;
      }
    };
    pool_.for_each_chunk(static_cast<std::size_t>(count), 4, body);
    done_bytes_ += row_bytes * static_cast<std::size_t>(count);
    if (all_finite) return;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("The tensor {} holds values that are not numbers, which {} can't "
                            "store; the model is damaged, fetch it again.",
                            tensor.info.name, traits(tensor.info.type).name));
  }

  /// False when a value is not finite and the type has scales that it would spoil.
  static bool convert_row(const OutputTensor& tensor, std::int64_t index, std::vector<float>& row,
                          std::byte* out) {
    const std::span<const std::byte> source = tensor.source_row(index);
    const bool rotates_elements = tensor.rotated_head_dim > 0 && tensor.info.shape.size() == 1;
    if (tensor.source_type() == tensor.info.type && !rotates_elements) {
      std::memcpy(out, source.data(), source.size());
      return true;
    }
    traits(tensor.source_type()).dequantize(source.data(), row.data(), row.size());
    if (rotates_elements) rotate_elements(row, tensor.rotated_head_dim);
    traits(tensor.info.type).quantize(row.data(), out, row.size());
    return traits(tensor.info.type).block_size == 1 ||
           std::all_of(row.begin(), row.end(), [](float value) { return std::isfinite(value); });
  }

  void report() const {
    if (progress_) {
      progress_(static_cast<double>(done_bytes_) /
                static_cast<double>(std::max<std::uint64_t>(1, total_bytes_)));
    }
  }

  GgufFileWriter& writer_;
  kernels::ThreadPool& pool_;
  const QuantizeProgress& progress_;
  std::uint64_t total_bytes_;
  std::uint64_t done_bytes_ = 0;
  std::vector<std::vector<float>> rows_;  ///< one for each thread
  std::vector<std::byte> out_;
};

std::vector<GgufTensorInfo> infos(const std::vector<OutputTensor>& tensors) {
  std::vector<GgufTensorInfo> out;
  for (const OutputTensor& tensor : tensors) out.push_back(tensor.info);
  return out;
}

void check_can_be_written(const OutputTensor& tensor, const ModelSource& source) {
  const bool copied = tensor.source_type() == tensor.info.type;
  if (copied || traits(tensor.info.type).quantize != nullptr) return;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: this build can't write the tensor {} in the type {}.",
                          source.path().string(), quote_text(tensor.info.name),
                          traits(tensor.info.type).name));
}

void note_quantised_sources(QuantizePlan& plan) {
  std::size_t quantised = 0;
  for (const OutputTensor& tensor : plan.tensors) {
    const bool packed = traits(tensor.source_type()).block_size > 1;
    if (packed && tensor.source_type() != tensor.info.type) ++quantised;
  }
  if (quantised == 0) return;
  plan.notes.push_back(
      fmt::format("{} tensors were quantised before and lose a second time; start from an F16 or "
                  "BF16 model for the best result.",
                  quantised));
}

}  // namespace

QuantizePlan plan_quantize(const ModelSource& source, const QuantizeRecipe& recipe) {
  QuantizePlan plan;
  plan.tensors = output_tensors(source, recipe);
  plan.metadata = model_metadata(source, plan.notes);
  plan.metadata.insert_or_assign("general.file_type", recipe.file_type);
  plan.metadata.insert_or_assign("general.quantization_version", std::int64_t{2});
  for (const OutputTensor& tensor : plan.tensors) {
    check_can_be_written(tensor, source);
    for (const TensorView* piece : tensor.pieces) plan.source_bytes += piece->data.size();
  }
  note_quantised_sources(plan);
  plan.file_bytes = gguf_file_bytes(plan.metadata, infos(plan.tensors));
  return plan;
}

void write_quantized(const ModelSource& source, const QuantizePlan& plan,
                     const std::filesystem::path& path, kernels::ThreadPool& pool,
                     const QuantizeProgress& progress) {
  static_cast<void>(source);  // kept alive by the caller: the plan's tensors lie in it
  std::vector<GgufTensorInfo> tensors = infos(plan.tensors);
  std::uint64_t bytes = 0;
  for (const GgufTensorInfo& tensor : tensors) bytes += tensor.bytes();
  GgufFileWriter writer(path, plan.metadata, std::move(tensors));
  Quantizer quantizer(writer, pool, progress, bytes);
  for (const OutputTensor& tensor : plan.tensors) quantizer.convert(tensor);
  writer.finish();
}

}  // namespace sluice
