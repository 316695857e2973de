// Metadata of one architecture: keys get its prefix, sizes are checked, faults name key and file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/formats/model_source.hpp"

namespace sluice {

class MetadataReader {
 public:
  MetadataReader(const ModelSource& source, std::string architecture)
      : source_(source), architecture_(std::move(architecture)) {}

  const ModelSource& source() const { return source_; }
  /// "attention.scale" -> "llama.attention.scale".
  std::string key(std::string_view name) const;
  std::string file() const { return source_.path().string(); }

  /// A whole number from 1 to `largest`. Throws Error(kCorrupt).
  std::int32_t require_size(std::string_view name, std::int64_t largest) const;
  std::optional<std::int32_t> optional_size(std::string_view name, std::int64_t largest) const;
  /// A finite number within [least, largest]. Throws Error(kCorrupt).
  std::optional<float> optional_number(std::string_view name, double least, double largest) const;
  std::optional<bool> optional_flag(std::string_view name) const;
  /// An array of truth values, also when it was written as integers; empty when absent.
  std::optional<std::vector<bool>> optional_flags(std::string_view name) const;
  /// Is the key there with any type?
  bool has(std::string_view name) const;
  /// Is it there as a single whole number?
  bool is_int(std::string_view name) const;

  [[noreturn]] void corrupt(const std::string& fault) const;
  [[noreturn]] void unsupported(const std::string& fault) const;

 private:
  std::int32_t checked_size(std::string_view name, std::int64_t value, std::int64_t largest) const;

  const ModelSource& source_;
  std::string architecture_;
};

}  // namespace sluice
