#include "engine/formats/json_file.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "engine/base/error.hpp"

namespace sluice {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Integers of more than 18 digits become decimal numbers, which may be of any size. Published
/// files have such (a "model_max_length" of 10^30), and the parser refuses them.
std::string with_huge_integers_as_decimals(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  bool in_string = false;
  for (std::size_t i = 0; i < json.size();) {
    if (in_string || !is_digit(json[i])) {
      const bool escapes = in_string && json[i] == '\\' && i + 1 < json.size();
      if (json[i] == '"') in_string = !in_string;
      out += json.substr(i, escapes ? 2 : 1);
      i += escapes ? 2 : 1;
      continue;
    }
    const std::size_t begin = i;
    while (i < json.size() && is_digit(json[i])) ++i;
    out += json.substr(begin, i - begin);
    const bool follows_point = begin > 0 && (json[begin - 1] == '.' || json[begin - 1] == '+');
    const bool goes_on = i < json.size() && (json[i] == '.' || json[i] == 'e' || json[i] == 'E');
    if (i - begin > 18 && !follows_point && !goes_on) out += ".0";
  }
  return out;
}

}  // namespace

JsonFile::JsonFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("There is no file {}; check the path.", path.string()));
  }
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  parse(text, "it");
}

JsonFile::JsonFile(const std::filesystem::path& path, std::string_view text, std::string_view what)
    : path_(path) {
  parse(text, what);
}

void JsonFile::parse(std::string_view text, std::string_view what) {
  auto result = parser_.parse(text.data(), text.size());
  if (result.error() == simdjson::NUMBER_ERROR) {
    result = parser_.parse(with_huge_integers_as_decimals(text));
  }
  if (result.error() != simdjson::SUCCESS) {
    corrupt(
        fmt::format("{} is not valid JSON ({})", what, simdjson::error_message(result.error())));
  }
  root_ = result.value_unsafe();
}

void JsonFile::corrupt(const std::string& fault) const {
  throw Error(ErrorCode::kCorrupt,
              fmt::format("{}: {}; the file is damaged or was written by a faulty converter.",
                          path_.string(), fault));
}

void JsonFile::unsupported(const std::string& what) const {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("{} asks for {}, which this build does not know; leaving it out would "
                          "give wrong results.",
                          path_.string(), what));
}

std::string_view JsonFile::text(simdjson::dom::element object, std::string_view key) const {
  const auto value = text_member(object, key);
  if (!value) corrupt(fmt::format("a string \"{}\" is missing", key));
  return *value;
}

std::uint64_t JsonFile::count(simdjson::dom::element object, std::string_view key) const {
  std::uint64_t value = 0;
  if (object.at_key(key).get(value) != simdjson::SUCCESS) {
    corrupt(fmt::format("a number \"{}\" is missing", key));
  }
  return value;
}

simdjson::dom::array JsonFile::array(simdjson::dom::element object, std::string_view key) const {
  simdjson::dom::array value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS) {
    corrupt(fmt::format("an array \"{}\" is missing", key));
  }
  return value;
}

simdjson::dom::object JsonFile::object(simdjson::dom::element object, std::string_view key) const {
  simdjson::dom::object value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS) {
    corrupt(fmt::format("an object \"{}\" is missing", key));
  }
  return value;
}

std::optional<simdjson::dom::element> member(simdjson::dom::element object, std::string_view key) {
  simdjson::dom::element value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

std::optional<std::string_view> text_member(simdjson::dom::element object, std::string_view key) {
  std::string_view value;
  if (object.at_key(key).get(value) != simdjson::SUCCESS) return std::nullopt;
  return value;
}

bool flag_member(simdjson::dom::element object, std::string_view key, bool otherwise) {
  bool value = false;
  return object.at_key(key).get(value) == simdjson::SUCCESS ? value : otherwise;
}

}  // namespace sluice
