// Collects GGUF metadata of one architecture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/formats/hf_metadata.hpp"

namespace sluice {

/// Sets keys under the architecture's name: set("block_count", ...) gives "llama.block_count".
class HfMetadataWriter {
 public:
  HfMetadataWriter(HfMetadata& out, std::string_view architecture)
      : out_(out), prefix_(std::string(architecture) + ".") {}

  void set_integer(std::string_view name, std::int64_t value) {
    out_.keys.insert_or_assign(prefix_ + std::string(name), value);
  }
  void set_number(std::string_view name, double value) {
    out_.keys.insert_or_assign(prefix_ + std::string(name), as_stored(value));
  }
  void set(std::string_view name, MetadataValue value) {
    out_.keys.insert_or_assign(prefix_ + std::string(name), std::move(value));
  }
  void set_global(std::string_view name, MetadataValue value) {
    out_.keys.insert_or_assign(std::string(name), std::move(value));
  }
  void add_vector(std::string name, std::vector<float> values) {
    out_.vectors.emplace_back(std::move(name), std::move(values));
  }

 private:
  /// GGUF files store numbers in F32; the same model must not differ by its form.
  static double as_stored(double value) { return static_cast<double>(static_cast<float>(value)); }

  HfMetadata& out_;
  std::string prefix_;
};

}  // namespace sluice
