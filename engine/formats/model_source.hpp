// One model as read from disk, whatever the file format: metadata and named tensors.
//
// The source owns the memory mapping that its tensors point into; keep it alive as long as any
// tensor's data is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/formats/dtype.hpp"

namespace sluice {

/// A metadata value. Integers of every width become int64 or, when they do not fit, uint64.
using MetadataValue =
    std::variant<bool, std::int64_t, std::uint64_t, double, std::string, std::vector<bool>,
                 std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;

/// Named tensor inside a mapping. shape[0] is the length of a row (the fastest dimension), so a
/// weight matrix that maps `in` features to `out` features has shape {in, out}.
struct TensorView {
  std::string name;
  DType type;
  std::vector<std::int64_t> shape;  ///< 1 to 4 dimensions, each at least 1
  std::span<const std::byte> data;  ///< exactly bytes_for(type, product of shape) bytes

  std::int64_t elements() const;
};

/// Metadata and tensors of one model. Immutable after construction; safe to share.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  /// Where it came from, for messages.
  virtual const std::filesystem::path& path() const = 0;
  /// Short name of the format and version, e.g. "GGUF v3".
  virtual std::string format() const = 0;
  virtual const std::map<std::string, MetadataValue, std::less<>>& metadata() const = 0;
  virtual const std::vector<TensorView>& tensors() const = 0;
  /// Null when there is no such tensor.
  virtual const TensorView* find_tensor(std::string_view name) const = 0;
  /// Says that these bytes of a tensor will hardly be used again, so that their memory can be
  /// taken back. They stay readable.
  virtual void release(std::span<const std::byte>) const noexcept {}

  // Typed access to metadata. get_* return nothing when the key is absent and throw
  // Error(kCorrupt), naming key and file, when it has another type or does not fit.
  std::optional<std::int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  const std::string* get_string(std::string_view key) const;
  const std::vector<std::string>* get_strings(std::string_view key) const;
  const std::vector<std::int64_t>* get_ints(std::string_view key) const;
  const std::vector<double>* get_floats(std::string_view key) const;
  // require_* throw Error(kCorrupt) that names the missing key and the file.
  std::int64_t require_int(std::string_view key) const;
  double require_float(std::string_view key) const;
  const std::string& require_string(std::string_view key) const;
};

/// Opens a GGUF file, known by its content (any part of a split one stands for all), or a Hugging
/// Face folder (also by the path of its weights or its config.json). Memory-maps; reads no weights.
/// Throws Error: kNotFound, kIo, kCorrupt, kUnsupported.
std::shared_ptr<const ModelSource> open_model(const std::filesystem::path& path);

}  // namespace sluice
