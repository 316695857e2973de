#include "web/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/json_writer.hpp"

namespace sluice::web {
namespace {

constexpr std::size_t kShownBytes = 40;

/// Cuts to at most kShownBytes without splitting a code point.
std::string shorten(std::string_view text) {
  if (text.size() <= kShownBytes) return std::string(text);
  std::size_t end = kShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string quoted(std::string_view text) {
  JsonWriter json;
  json.value(shorten(text));
  return json.take();
}

/// A whole number, also when written as 3.0 or 3e2. Empty when it is none or beyond 64 bits.
std::optional<std::int64_t> as_integer(simdjson::dom::element value) {
  std::int64_t whole = 0;
  if (value.get(whole) == simdjson::SUCCESS) return whole;
  double number = 0.0;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.get(number) == simdjson::SUCCESS && std::trunc(number) == number &&
      std::abs(number) <= kExact) {
    return static_cast<std::int64_t>(number);
  }
  return std::nullopt;
}

}  // namespace

std::string describe(simdjson::dom::element value) {
  switch (value.type()) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING: {
      std::string_view text;
      return value.get(text) == simdjson::SUCCESS ? quoted(text) : "a string";
    }
    default:
      return simdjson::minify(value);
  }
}

ObjectReader::ObjectReader(simdjson::dom::object object, std::string prefix, Nulls nulls)
    : object_(object), prefix_(std::move(prefix)), nulls_(nulls) {}

std::optional<simdjson::dom::element> ObjectReader::find(std::string_view name) {
  known_.push_back(name);
  if (failed()) return std::nullopt;
  for (const auto& field : object_) {
    if (field.key != name) continue;
    if (nulls_ == Nulls::kAbsent && field.value.is_null()) return std::nullopt;
    return field.value;
  }
  return std::nullopt;
}

void ObjectReader::number(std::string_view name, double low, double high, float& out) {
  const auto value = find(name);
  if (!value) return;
  double number = 0.0;
  const bool is_number = value->is_number() && value->get(number) == simdjson::SUCCESS;
  if (!is_number || !(number >= low && number <= high)) {
    mismatch(name, fmt::format("a number from {} to {}", low, high), *value);
    return;
  }
  out = static_cast<float>(number);
}

void ObjectReader::integer(std::string_view name, std::int64_t low, std::int64_t high,
                           std::int64_t& out) {
  const auto value = find(name);
  if (!value) return;
  const auto whole = as_integer(*value);
  if (!whole || *whole < low || *whole > high) {
    mismatch(name, fmt::format("a whole number from {} to {}", low, high), *value);
    return;
  }
  out = *whole;
}

void ObjectReader::integer(std::string_view name, std::int64_t low, std::int64_t high,
                           std::int32_t& out) {
  std::int64_t wide = out;
  integer(name, low, high, wide);
  out = static_cast<std::int32_t>(wide);
}

void ObjectReader::boolean(std::string_view name, bool& out) {
  const auto value = find(name);
  if (!value) return;
  if (value->get(out) != simdjson::SUCCESS) mismatch(name, "true or false", *value);
}

void ObjectReader::text(std::string_view name, std::size_t shortest, std::size_t longest,
                        std::string& out) {
  const auto value = find(name);
  if (!value) return;
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS) {
    mismatch(name, "a string", *value);
    return;
  }
  if (text.size() < shortest || text.size() > longest) {
    fail(fmt::format("{} must have {} to {} bytes, not {}.", label(name), shortest, longest,
                     text.size()));
    return;
  }
  out = std::string(text);
}

void ObjectReader::mismatch(std::string_view name, std::string_view wanted,
                            simdjson::dom::element found) {
  fail(fmt::format("{} must be {}, not {}.", label(name), wanted, describe(found)));
}

void ObjectReader::fail(std::string sentence) {
  if (!failed()) error_ = std::move(sentence);
}

void ObjectReader::finish() {
  if (failed()) return;
  std::vector<std::string_view> seen;
  for (const auto& field : object_) {
    if (std::find(known_.begin(), known_.end(), field.key) == known_.end()) {
      fail(fmt::format("`{}{}` is not a known field.", prefix_, shorten(field.key)));
      return;
    }
    if (std::find(seen.begin(), seen.end(), field.key) != seen.end()) {
      fail(fmt::format("{} is given twice.", label(field.key)));
      return;
    }
    seen.push_back(field.key);
  }
}

}  // namespace sluice::web
