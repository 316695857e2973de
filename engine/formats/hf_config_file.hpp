// config.json of a Hugging Face folder: values under the names that they have had over the years.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/formats/json_file.hpp"

namespace sluice {

/// Every getter takes alternative names and uses the first that is present and not null. A value
/// of another type throws Error(kCorrupt) that names file and key.
class HfConfigFile {
 public:
  using Names = std::initializer_list<std::string_view>;

  /// Throws Error: kNotFound, kCorrupt (not a JSON object).
  explicit HfConfigFile(const std::filesystem::path& config_json);

  /// The language model's part: the whole file, or "text_config" of a model with several parts.
  simdjson::dom::element text_part() const { return text_part_; }
  simdjson::dom::element root() const { return file_.root(); }
  const std::filesystem::path& path() const { return file_.path(); }

  std::optional<std::int64_t> integer(Names names) const;
  std::optional<double> number(Names names) const;
  std::optional<bool> flag(Names names) const;
  std::optional<std::string> text(Names names) const;
  std::optional<std::vector<double>> numbers(simdjson::dom::element object,
                                             std::string_view name) const;
  std::optional<std::vector<std::string>> texts(simdjson::dom::element object,
                                                std::string_view name) const;
  std::optional<double> number_in(simdjson::dom::element object, Names names) const;
  /// Throws Error(kCorrupt), naming the first name, when there is none.
  std::int64_t require_integer(Names names) const;
  double require_number(Names names) const;

  [[noreturn]] void corrupt(const std::string& fault) const { file_.corrupt(fault); }
  [[noreturn]] void unsupported(const std::string& what) const { file_.unsupported(what); }

 private:
  JsonFile file_;
  simdjson::dom::element text_part_;
};

}  // namespace sluice
