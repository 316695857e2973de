#include "engine/formats/safetensors_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/json_file.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

/// Longest header that the format's own library accepts.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

struct ElementType {
  std::string_view name;
  std::uint64_t bytes;
  std::optional<DType> weights;
};
constexpr ElementType kElementTypes[] = {
    {"F32", 4, DType::kF32},      {"F16", 2, DType::kF16},      {"BF16", 2, DType::kBF16},
    {"F64", 8, std::nullopt},     {"I64", 8, std::nullopt},     {"U64", 8, std::nullopt},
    {"I32", 4, std::nullopt},     {"U32", 4, std::nullopt},     {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},     {"I8", 1, std::nullopt},      {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},    {"F8_E4M3", 1, std::nullopt}, {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
};

const ElementType* find_element_type(std::string_view name) {
  for (const ElementType& type : kElementTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

[[noreturn]] void corrupt(const std::filesystem::path& path, const std::string& fault) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: {}; the file is damaged or cut short, so fetch it again.",
                          path.string(), fault));
}

/// The header as text; what follows it is the data.
std::string_view header_text(std::span<const std::byte> file, const std::filesystem::path& path) {
  if (file.empty()) corrupt(path, "the file is empty");
  std::uint64_t length = 0;
  if (file.size() < sizeof length) corrupt(path, "the file ends inside the header's length");
  std::memcpy(&length, file.data(), sizeof length);
  const std::uint64_t rest = file.size() - sizeof length;
  if (length > rest || length > kMaxHeaderBytes || length < 2) {
    corrupt(path, fmt::format("the header is said to have {} bytes, in a file of {} (at most {} "
                              "are allowed)",
                              length, file.size(), kMaxHeaderBytes));
  }
  return {reinterpret_cast<const char*>(file.data() + sizeof length),
          static_cast<std::size_t>(length)};
}

/// Reads the description of one tensor.
class TensorReader {
 public:
  TensorReader(const JsonFile& header, std::string_view name, element description)
      : header_(header), name_(name), description_(description) {}

  SafeTensor read(std::span<const std::byte> data) const {
    if (!description_.is_object()) fail("is not described by an object");
    SafeTensor tensor;
    tensor.name = std::string(name_);
    const ElementType& type = read_type();
    tensor.type_name = std::string(type.name);
    tensor.shape = read_shape();
    const auto [begin, end] = read_offsets();
    if (begin > end) fail(fmt::format("begins at offset {}, after its end {}", begin, end));
    if (end > data.size()) {
      fail(fmt::format("ends at offset {}, but there are only {} bytes of data", end, data.size()));
    }
    const std::uint64_t bytes = checked_bytes(tensor.shape, type.bytes);
    if (end - begin != bytes) {
      fail(fmt::format("of shape [{}] and type {} needs {} bytes, but its offsets give it {}",
                       fmt::join(tensor.shape, ", "), type.name, bytes, end - begin));
    }
    tensor.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(bytes));
    return tensor;
  }

 private:
  const ElementType& read_type() const {
    const auto name = text_member(description_, "dtype");
    if (!name) fail("has no \"dtype\"");
    const ElementType* type = find_element_type(*name);
    if (type != nullptr) return *type;
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: tensor {} has the element type {}, which this build does not "
                            "know; it reads weights in F32, F16 and BF16.",
                            header_.path().string(), quote_text(name_), quote_text(*name)));
  }

  std::vector<std::int64_t> read_shape() const {
    const auto list = member(description_, "shape");
    if (!list || !list->is_array()) fail("has no \"shape\"");
    std::vector<std::int64_t> shape;
    for (const element entry : list->get_array()) {
      std::int64_t length = 0;
      if (entry.get(length) != simdjson::SUCCESS || length < 0) {
        fail("has a dimension that is not a count");
      }
      shape.push_back(length);
    }
    constexpr std::size_t kMaxDimensions = 8;
    if (shape.size() > kMaxDimensions) fail(fmt::format("has {} dimensions", shape.size()));
    return shape;
  }

  std::pair<std::uint64_t, std::uint64_t> read_offsets() const {
    const auto list = member(description_, "data_offsets");
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (!list || !list->is_array() || list->get_array().size() != 2 ||
        list->at(0).get(begin) != simdjson::SUCCESS || list->at(1).get(end) != simdjson::SUCCESS) {
      fail("has no \"data_offsets\" of two whole numbers");
    }
    return {begin, end};
  }

  std::uint64_t checked_bytes(const std::vector<std::int64_t>& shape,
                              std::uint64_t element_bytes) const {
    std::uint64_t bytes = element_bytes;
    for (const std::int64_t length : shape) {
      const auto factor = static_cast<std::uint64_t>(length);
      if (factor != 0 && bytes > std::numeric_limits<std::int64_t>::max() / factor) {
        fail(fmt::format("has an impossible shape [{}]", fmt::join(shape, ", ")));
      }
      bytes *= factor;
    }
    return bytes;
  }

  [[noreturn]] void fail(const std::string& fault) const {
    corrupt(header_.path(), fmt::format("tensor {} {}", quote_text(name_), fault));
  }

  const JsonFile& header_;
  std::string_view name_;
  element description_;
};

/// Sorted by place, the tensors must follow one another and fill the data.
void check_cover(const std::vector<SafeTensor>& tensors, std::span<const std::byte> data,
                 const std::filesystem::path& path) {
  std::vector<const SafeTensor*> by_place;
  for (const SafeTensor& tensor : tensors) {
    if (!tensor.data.empty()) by_place.push_back(&tensor);
  }
  std::sort(by_place.begin(), by_place.end(), [](const SafeTensor* a, const SafeTensor* b) {
    return a->data.data() < b->data.data();
  });
  const std::byte* covered = data.data();
  for (const SafeTensor* tensor : by_place) {
    const std::ptrdiff_t gap = tensor->data.data() - covered;
    if (gap < 0) {
      corrupt(path, fmt::format("tensor {} shares bytes with another", quote_text(tensor->name)));
    }
    if (gap > 0) {
      corrupt(path, fmt::format("{} bytes before tensor {} belong to no tensor", gap,
                                quote_text(tensor->name)));
    }
    covered += tensor->data.size();
  }
  const std::ptrdiff_t rest = data.data() + data.size() - covered;
  if (rest > 0) corrupt(path, fmt::format("{} bytes at the end belong to no tensor", rest));
}

}  // namespace

std::optional<DType> weight_type(const SafeTensor& tensor) {
  const ElementType* type = find_element_type(tensor.type_name);
  return type == nullptr ? std::nullopt : type->weights;
}

std::vector<SafeTensor> read_safetensors(std::span<const std::byte> file,
                                         const std::filesystem::path& path) {
  const std::string_view text = header_text(file, path);
  const JsonFile header(path, text, "the header");
  if (!header.root().is_object()) corrupt(path, "the header is not an object");
  const std::span<const std::byte> data = file.subspan(sizeof(std::uint64_t) + text.size());
  std::vector<SafeTensor> tensors;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, description] : header.root().get_object()) {
    if (!names.insert(name).second) {
      corrupt(path, fmt::format("the header has {} twice", quote_text(name)));
    }
    if (name == "__metadata__") continue;
    tensors.push_back(TensorReader(header, name, description).read(data));
  }
  check_cover(tensors, data, path);
  return tensors;
}

}  // namespace sluice
