#include "engine/formats/hf_transform.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

class Transformer {
 public:
  Transformer(const SafeTensor& tensor, std::int64_t num_heads, const std::filesystem::path& folder,
              OwnedBytes& owned)
      : tensor_(tensor), num_heads_(num_heads), folder_(folder), owned_(owned) {}

  TensorView apply(std::string gguf_name, HfTransform transform) {
    view_.name = std::move(gguf_name);
    view_.type = read_type();
    view_.data = tensor_.data;
    read_shape();
    switch (transform) {
      case HfTransform::kAddOne:
        add_one();
        break;
      case HfTransform::kTranspose:
        transpose();
        break;
      case HfTransform::kSplitHeads:
        split_heads();
        break;
      case HfTransform::kFlatten:
        flatten();
        break;
      case HfTransform::kNone:
      case HfTransform::kDrop:
        align();
        break;
    }
    return std::move(view_);
  }

 private:
  DType read_type() const {
    if (const auto type = weight_type(tensor_)) return *type;
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("{}: tensor {} holds values of the type {}; this build reads weights in "
                    "F32, F16 and BF16.",
                    folder_.string(), quote_text(tensor_.name), tensor_.type_name));
  }

  void read_shape() {
    const bool possible =
        !tensor_.shape.empty() && tensor_.shape.size() <= 4 &&
        std::find(tensor_.shape.begin(), tensor_.shape.end(), 0) == tensor_.shape.end();
    if (!possible) fail("weights");
    view_.shape.assign(tensor_.shape.rbegin(), tensor_.shape.rend());
  }

  std::size_t element_bytes() const { return traits(view_.type).block_bytes; }

  std::byte* own(std::size_t bytes) {
    owned_.push_back(std::make_unique<std::byte[]>(bytes));
    view_.data = {owned_.back().get(), bytes};
    return owned_.back().get();
  }

  /// Headers need not be padded, so that values may lie at odd addresses; kernels want whole ones.
  void align() {
    const auto address = reinterpret_cast<std::uintptr_t>(view_.data.data());
    if (address % element_bytes() == 0) return;
    const std::span<const std::byte> source = view_.data;
    std::memcpy(own(source.size()), source.data(), source.size());
  }

  void add_one() {
    const auto n = static_cast<std::size_t>(view_.elements());
    std::vector<float> values(n);
    traits(view_.type).dequantize(view_.data.data(), values.data(), n);
    for (float& value : values) value += 1.0F;
    view_.type = DType::kF32;
    std::memcpy(own(n * sizeof(float)), values.data(), n * sizeof(float));
  }

  /// [in, out] to rows of `in` values, one an output.
  void transpose() {
    if (view_.shape.size() != 2) fail("a matrix");
    const auto in = static_cast<std::size_t>(tensor_.shape[0]);
    const auto out = static_cast<std::size_t>(tensor_.shape[1]);
    const std::size_t width = element_bytes();
    const std::byte* from = view_.data.data();
    std::byte* to = own(view_.data.size());
    constexpr std::size_t kTile = 32;  // small enough that both sides stay in the cache
    for (std::size_t i0 = 0; i0 < in; i0 += kTile) {
      for (std::size_t o0 = 0; o0 < out; o0 += kTile) {
        for (std::size_t o = o0; o < std::min(out, o0 + kTile); ++o) {
          for (std::size_t i = i0; i < std::min(in, i0 + kTile); ++i) {
            std::memcpy(to + (o * in + i) * width, from + (i * out + o) * width, width);
          }
        }
      }
    }
    std::swap(view_.shape[0], view_.shape[1]);
  }

  /// Rows [heads][q k v][head_dim] to [q k v][heads][head_dim]. Vectors count as rows of one.
  void split_heads() {
    const std::int64_t rows = tensor_.shape[0];
    if (num_heads_ < 1 || rows % (3 * num_heads_) != 0 || tensor_.shape.size() > 2) {
      fail(fmt::format("q, k and v of {} heads", num_heads_));
    }
    const auto heads = static_cast<std::size_t>(num_heads_);
    const std::size_t part = view_.data.size() / (3 * heads);
    const std::byte* from = view_.data.data();
    std::byte* to = own(view_.data.size());
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t which = 0; which < 3; ++which) {
        std::memcpy(to + (which * heads + head) * part, from + (head * 3 + which) * part, part);
      }
    }
  }

  void flatten() {
    if (view_.shape.size() == 2 && view_.shape[1] == 1) view_.shape.pop_back();
    align();
  }

  [[noreturn]] void fail(const std::string& wanted) const {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: tensor {} of the shape [{}] can't hold {}; the folder contradicts "
                            "itself, fetch it again.",
                            folder_.string(), quote_text(tensor_.name),
                            fmt::join(tensor_.shape, ", "), wanted));
  }

  const SafeTensor& tensor_;
  std::int64_t num_heads_;
  const std::filesystem::path& folder_;
  OwnedBytes& owned_;
  TensorView view_{};
};

}  // namespace

TensorView transform_hf_tensor(const SafeTensor& tensor, std::string gguf_name,
                               HfTransform transform, std::int64_t num_heads,
                               const std::filesystem::path& folder, OwnedBytes& owned) {
  return Transformer(tensor, num_heads, folder, owned).apply(std::move(gguf_name), transform);
}

}  // namespace sluice
