#include "engine/model/metadata_reader.hpp"

#include <fmt/format.h>

#include <variant>

#include "engine/base/error.hpp"

namespace sluice {

std::string MetadataReader::key(std::string_view name) const {
  return fmt::format("{}.{}", architecture_, name);
}

std::int32_t MetadataReader::require_size(std::string_view name, std::int64_t largest) const {
  return checked_size(name, source_.require_int(key(name)), largest);
}

std::optional<std::int32_t> MetadataReader::optional_size(std::string_view name,
                                                          std::int64_t largest) const {
  const auto value = source_.get_int(key(name));
  if (!value) return std::nullopt;
  return checked_size(name, *value, largest);
}

std::int32_t MetadataReader::checked_size(std::string_view name, std::int64_t value,
                                          std::int64_t largest) const {
  if (value < 1 || value > largest)
    corrupt(fmt::format("{} is {}, outside 1 to {}", key(name), value, largest));
  return static_cast<std::int32_t>(value);
}

std::optional<float> MetadataReader::optional_number(std::string_view name, double least,
                                                     double largest) const {
  const auto value = source_.get_float(key(name));
  if (!value) return std::nullopt;
  if (!(*value >= least && *value <= largest))
    corrupt(fmt::format("{} is {}, outside {} to {}", key(name), *value, least, largest));
  return static_cast<float>(*value);
}

std::optional<bool> MetadataReader::optional_flag(std::string_view name) const {
  return source_.get_bool(key(name));
}

std::optional<std::vector<bool>> MetadataReader::optional_flags(std::string_view name) const {
  const auto found = source_.metadata().find(key(name));
  if (found == source_.metadata().end()) return std::nullopt;
  if (const auto* flags = std::get_if<std::vector<bool>>(&found->second)) return *flags;
  if (const auto* numbers = std::get_if<std::vector<std::int64_t>>(&found->second)) {
    std::vector<bool> flags;
    for (const std::int64_t number : *numbers) flags.push_back(number != 0);
    return flags;
  }
  corrupt(fmt::format("{} is not an array of truth values", key(name)));
}

bool MetadataReader::has(std::string_view name) const {
  return source_.metadata().contains(key(name));
}

bool MetadataReader::is_int(std::string_view name) const {
  const auto found = source_.metadata().find(key(name));
  return found != source_.metadata().end() && std::holds_alternative<std::int64_t>(found->second);
}

void MetadataReader::corrupt(const std::string& fault) const {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: {}; the file is damaged or was written by a faulty converter.",
                          file(), fault));
}

void MetadataReader::unsupported(const std::string& fault) const {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}.", file(), fault));
}

}  // namespace sluice
