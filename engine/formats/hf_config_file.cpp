#include "engine/formats/hf_config_file.hpp"

#include <fmt/format.h>

#include "engine/formats/quote_text.hpp"

namespace sluice {
namespace {

using simdjson::dom::element;

struct Found {
  std::string_view name;
  element value;
};

std::optional<Found> find(element object, HfConfigFile::Names names) {
  for (const std::string_view name : names) {
    if (const auto value = member(object, name)) return Found{name, *value};
  }
  return std::nullopt;
}

template <class T>
std::optional<T> find_as(const HfConfigFile& config, element object, HfConfigFile::Names names,
                         std::string_view kind) {
  const auto found = find(object, names);
  if (!found) return std::nullopt;
  T value{};
  if (found->value.get(value) != simdjson::SUCCESS) {
    config.corrupt(fmt::format("\"{}\" is not {}", found->name, kind));
  }
  return value;
}

template <class T, class Item>
std::optional<std::vector<T>> find_list(const HfConfigFile& config, element object,
                                        std::string_view name, std::string_view kind) {
  const auto found = member(object, name);
  if (!found) return std::nullopt;
  std::vector<T> values;
  if (!found->is_array()) config.corrupt(fmt::format("\"{}\" is not an array of {}", name, kind));
  for (const element entry : found->get_array()) {
    Item item{};
    if (entry.get(item) != simdjson::SUCCESS) {
      config.corrupt(fmt::format("\"{}\" is not an array of {}", name, kind));
    }
    values.emplace_back(item);
  }
  return values;
}

}  // namespace

HfConfigFile::HfConfigFile(const std::filesystem::path& config_json) : file_(config_json) {
  if (!file_.root().is_object()) file_.corrupt("it is not a JSON object");
  const auto text_config = member(file_.root(), "text_config");
  text_part_ = text_config && text_config->is_object() ? *text_config : file_.root();
}

std::optional<std::int64_t> HfConfigFile::integer(Names names) const {
  return find_as<std::int64_t>(*this, text_part_, names, "a whole number");
}

std::optional<double> HfConfigFile::number(Names names) const {
  return number_in(text_part_, names);
}

std::optional<double> HfConfigFile::number_in(element object, Names names) const {
  return find_as<double>(*this, object, names, "a number");
}

std::optional<bool> HfConfigFile::flag(Names names) const {
  return find_as<bool>(*this, text_part_, names, "true or false");
}

std::optional<std::string> HfConfigFile::text(Names names) const {
  const auto value = find_as<std::string_view>(*this, text_part_, names, "a string");
  if (!value) return std::nullopt;
  return std::string(*value);
}

std::optional<std::vector<double>> HfConfigFile::numbers(element object,
                                                         std::string_view name) const {
  return find_list<double, double>(*this, object, name, "numbers");
}

std::optional<std::vector<std::string>> HfConfigFile::texts(element object,
                                                            std::string_view name) const {
  return find_list<std::string, std::string_view>(*this, object, name, "strings");
}

std::int64_t HfConfigFile::require_integer(Names names) const {
  const auto value = integer(names);
  if (!value) corrupt(fmt::format("\"{}\" is missing", *names.begin()));
  return *value;
}

double HfConfigFile::require_number(Names names) const {
  const auto value = number(names);
  if (!value) corrupt(fmt::format("\"{}\" is missing", *names.begin()));
  return *value;
}

}  // namespace sluice
