#include "engine/formats/model_source.hpp"

#include <fmt/format.h>

#include <limits>
#include <type_traits>

#include "engine/base/error.hpp"
#include "engine/formats/gguf_reader.hpp"
#include "engine/formats/hf_folder.hpp"
#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

std::string_view type_name(const MetadataValue& value) {
  static constexpr std::string_view kNames[] = {"a truth value",
                                                "an integer",
                                                "an integer beyond 63 bits",
                                                "a number",
                                                "a string",
                                                "an array of truth values",
                                                "an array of integers",
                                                "an array of numbers",
                                                "an array of strings"};
  static_assert(std::size(kNames) == std::variant_size_v<MetadataValue>);
  return kNames[value.index()];
}

[[noreturn]] void wrong_type(const ModelSource& source, std::string_view key,
                             std::string_view wanted, const MetadataValue& value) {
  throw Error(
      ErrorCode::kCorrupt,
      fmt::format("{}: the metadata key {} must be {} but is {}; the file is damaged or was "
                  "written by a faulty converter.",
                  source.path().string(), key, wanted, type_name(value)));
}

const MetadataValue* find(const ModelSource& source, std::string_view key) {
  const auto found = source.metadata().find(key);
  return found == source.metadata().end() ? nullptr : &found->second;
}

template <class T>
const T* find_as(const ModelSource& source, std::string_view key, std::string_view wanted) {
  const MetadataValue* value = find(source, key);
  if (value == nullptr) return nullptr;
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) wrong_type(source, key, wanted, *value);
  return typed;
}

[[noreturn]] void missing(const ModelSource& source, std::string_view key) {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: the required metadata key {} is missing; the file is incomplete or "
                          "is not a language model.",
                          source.path().string(), key));
}

}  // namespace

std::int64_t TensorView::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t length : shape) product *= length;
  return product;
}

std::optional<std::int64_t> ModelSource::get_int(std::string_view key) const {
  const auto* value = find_as<std::int64_t>(*this, key, "an integer");
  if (value == nullptr) return std::nullopt;
  return *value;
}

std::optional<double> ModelSource::get_float(std::string_view key) const {
  const MetadataValue* value = find(*this, key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(value)) return static_cast<double>(*integer);
  wrong_type(*this, key, "a number", *value);
}

std::optional<bool> ModelSource::get_bool(std::string_view key) const {
  const auto* value = find_as<bool>(*this, key, "a truth value");
  if (value == nullptr) return std::nullopt;
  return *value;
}

const std::string* ModelSource::get_string(std::string_view key) const {
  return find_as<std::string>(*this, key, "a string");
}

const std::vector<std::string>* ModelSource::get_strings(std::string_view key) const {
  return find_as<std::vector<std::string>>(*this, key, "an array of strings");
}

const std::vector<std::int64_t>* ModelSource::get_ints(std::string_view key) const {
  return find_as<std::vector<std::int64_t>>(*this, key, "an array of integers");
}

const std::vector<double>* ModelSource::get_floats(std::string_view key) const {
  return find_as<std::vector<double>>(*this, key, "an array of numbers");
}

std::int64_t ModelSource::require_int(std::string_view key) const {
  const auto value = get_int(key);
  if (!value) missing(*this, key);
  return *value;
}

double ModelSource::require_float(std::string_view key) const {
  const auto value = get_float(key);
  if (!value) missing(*this, key);
  return *value;
}

const std::string& ModelSource::require_string(std::string_view key) const {
  const std::string* value = get_string(key);
  if (value == nullptr) missing(*this, key);
  return *value;
}

std::shared_ptr<const ModelSource> open_model(const std::filesystem::path& path) {
  if (const auto folder = hf_folder_of(path)) return read_hf_folder(*folder);
  return read_gguf(path);
}

}  // namespace sluice
