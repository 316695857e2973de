#include "engine/formats/gguf_tensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_set>
#include <utility>

#include "engine/base/error.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint32_t kMaxDimensions = 4;
/// Name length, number of dimensions, one dimension, type, offset.
constexpr std::uint64_t kMinDescriptionBytes = 8 + 4 + 8 + 4 + 8;

/// One tensor as the file describes it.
struct Description {
  std::string name;
  std::vector<std::int64_t> shape;
  DType type = DType::kF32;
  std::uint64_t offset = 0;  ///< from the start of the tensor data
  std::uint64_t bytes = 0;
};

[[noreturn]] void corrupt(const std::string& path, std::string_view tensor,
                          const std::string& fault) {
  throw Error(ErrorCode::kCorrupt, fmt::format("{}: tensor {} {}; the file is damaged.", path,
                                               quote_text(tensor), fault));
}

std::uint64_t read_alignment(const MetadataMap& metadata, const std::string& path) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const auto* value = std::get_if<std::int64_t>(&found->second);
  // The specification asks for a multiple of 8; weights are read in place, so it matters.
  if (value == nullptr || *value < 8 || !std::has_single_bit(static_cast<std::uint64_t>(*value))) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: general.alignment must be a power of two of at least 8{}.", path,
                            value == nullptr ? "" : fmt::format(" but is {}", *value)));
  }
  return static_cast<std::uint64_t>(*value);
}

/// Number of elements, or an error when a dimension or the product is impossible.
std::uint64_t checked_elements(const Description& tensor, const std::string& path) {
  std::uint64_t product = 1;
  for (const std::int64_t length : tensor.shape) {
    if (length < 1) corrupt(path, tensor.name, fmt::format("has a dimension of {}", length));
    const auto factor = static_cast<std::uint64_t>(length);
    if (product > std::numeric_limits<std::int64_t>::max() / factor) {
      corrupt(path, tensor.name,
              fmt::format("has an impossible shape [{}]", fmt::join(tensor.shape, ", ")));
    }
    product *= factor;
  }
  return product;
}

DType read_type(ByteCursor& cursor, const std::string& name, const std::string& path) {
  const auto id = cursor.read<std::uint32_t>("a tensor description");
  const auto type = dtype_from_gguf(id);
  if (type) return *type;
  std::vector<std::string_view> known;
  for (const DTypeTraits& row : all_dtypes()) known.push_back(row.name);
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{}: tensor {} has the element type number {}, which this build does not "
                          "know; it reads {}.",
                          path, quote_text(name), id, fmt::join(known, ", ")));
}

Description read_description(ByteCursor& cursor, const std::string& path) {
  constexpr std::string_view kWhat = "a tensor description";
  Description tensor;
  const auto name_length = cursor.read<std::uint64_t>(kWhat);
  tensor.name = std::string(cursor.read_text(name_length, kWhat));
  const auto num_dimensions = cursor.read<std::uint32_t>(kWhat);
  if (num_dimensions < 1 || num_dimensions > kMaxDimensions) {
    corrupt(path, tensor.name,
            fmt::format("has {} dimensions instead of 1 to {}", num_dimensions, kMaxDimensions));
  }
  for (std::uint32_t i = 0; i < num_dimensions; ++i) {
    // Lengths beyond 63 bits turn negative here and are refused as such.
    tensor.shape.push_back(static_cast<std::int64_t>(cursor.read<std::uint64_t>(kWhat)));
  }
  const std::uint64_t elements = checked_elements(tensor, path);
  tensor.type = read_type(cursor, tensor.name, path);
  tensor.offset = cursor.read<std::uint64_t>(kWhat);

  const DTypeTraits& type = traits(tensor.type);
  if (static_cast<std::uint64_t>(tensor.shape[0]) % type.block_size != 0) {
    corrupt(path, tensor.name,
            fmt::format("has rows of {} elements, not whole {} blocks of {}", tensor.shape[0],
                        type.name, type.block_size));
  }
  const std::uint64_t blocks = elements / type.block_size;
  if (blocks > std::numeric_limits<std::uint64_t>::max() / type.block_bytes) {
    corrupt(path, tensor.name,
            fmt::format("has an impossible shape [{}]", fmt::join(tensor.shape, ", ")));
  }
  tensor.bytes = blocks * type.block_bytes;
  return tensor;
}

void check_names_differ(const std::vector<Description>& tensors, const std::string& path) {
  std::unordered_set<std::string_view> names;
  for (const Description& tensor : tensors) {
    if (!names.insert(tensor.name).second) corrupt(path, tensor.name, "comes twice");
  }
}

/// Every tensor lies inside the data, aligned, and shares no byte with another.
void check_placement(const std::vector<Description>& tensors, std::uint64_t data_bytes,
                     std::uint64_t alignment, const std::string& path) {
  std::vector<const Description*> by_offset;
  by_offset.reserve(tensors.size());
  for (const Description& tensor : tensors) {
    if (tensor.offset % alignment != 0) {
      corrupt(path, tensor.name,
              fmt::format("begins at offset {}, not a multiple of the alignment {}", tensor.offset,
                          alignment));
    }
    if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
      corrupt(path, tensor.name,
              fmt::format("needs {} bytes at offset {} of the tensor data, but the file holds only "
                          "{} (cut short?)",
                          tensor.bytes, tensor.offset, data_bytes));
    }
    by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](const Description* a, const Description* b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const Description& before = *by_offset[i - 1];
    if (before.offset + before.bytes > by_offset[i]->offset) {
      corrupt(path, by_offset[i]->name,
              fmt::format("shares bytes with tensor {}", quote_text(before.name)));
    }
  }
}

}  // namespace

std::vector<TensorView> read_gguf_tensors(ByteCursor& cursor, std::span<const std::byte> file,
                                          std::uint64_t num_tensors, const MetadataMap& metadata,
                                          const std::string& path) {
  if (num_tensors > cursor.remaining() / kMinDescriptionBytes) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{}: the header announces {} tensors, more than the file can hold; it "
                            "is cut short or damaged.",
                            path, num_tensors));
  }
  const std::uint64_t alignment = read_alignment(metadata, path);
  std::vector<Description> descriptions;
  descriptions.reserve(static_cast<std::size_t>(num_tensors));
  for (std::uint64_t i = 0; i < num_tensors; ++i) {
    descriptions.push_back(read_description(cursor, path));
  }
  check_names_differ(descriptions, path);

  const std::uint64_t past_alignment = cursor.offset() % alignment;
  const std::uint64_t padding = past_alignment == 0 ? 0 : alignment - past_alignment;
  const std::uint64_t data_start = cursor.offset() + padding;
  const std::uint64_t data_bytes = data_start < file.size() ? file.size() - data_start : 0;
  check_placement(descriptions, data_bytes, alignment, path);

  std::vector<TensorView> tensors;
  tensors.reserve(descriptions.size());
  for (Description& tensor : descriptions) {
    const auto begin = static_cast<std::size_t>(data_start + tensor.offset);
    tensors.push_back({std::move(tensor.name), tensor.type, std::move(tensor.shape),
                       file.subspan(begin, static_cast<std::size_t>(tensor.bytes))});
  }
  return tensors;
}

}  // namespace sluice
