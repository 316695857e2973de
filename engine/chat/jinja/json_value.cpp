#include "engine/chat/jinja/json_value.hpp"

#include <simdjson.h>

#include <charconv>
#include <cstdlib>
#include <string>
#include <utility>

#include "engine/chat/jinja/failure.hpp"

namespace sluice::jinja {

namespace {

namespace ondemand = simdjson::ondemand;

constexpr int kMaxDepth = 150;

class Reader {
 public:
  explicit Reader(bool untrusted) : untrusted_(untrusted) {}

  Value read(std::string_view json) {
    // In brackets, so that a plain value is read like any other.
    const simdjson::padded_string padded("[" + std::string(json) + "]");
    ondemand::parser parser;
    ondemand::document document;
    check(parser.iterate(padded).get(document));
    ondemand::array array;
    check(document.get_array().get(array));
    Value result;
    int count = 0;
    for (auto element : array) {
      ondemand::value value;
      check(element.get(value));
      if (++count > 1) break;
      result = read_value(value, 0);
    }
    const bool at_end = document.current_location().error() == simdjson::OUT_OF_BOUNDS;
    if (count != 1 || !at_end) value_error("not valid JSON: it must be exactly one value");
    return result;
  }

 private:
  static void check(simdjson::error_code error) {
    if (error != simdjson::SUCCESS) {
      value_error(std::string("not valid JSON: ") + simdjson::error_message(error));
    }
  }

  Value string(std::string_view text) const {
    return untrusted_ ? Value::untrusted_text(text) : Value::text(text);
  }

  Value read_value(ondemand::value value, int depth) {
    if (depth > kMaxDepth) value_error("JSON is nested too deep");
    ondemand::json_type type{};
    check(value.type().get(type));
    switch (type) {
      case ondemand::json_type::array:
        return read_array(value, depth);
      case ondemand::json_type::object:
        return read_object(value, depth);
      case ondemand::json_type::string: {
        std::string_view text;
        check(value.get_string().get(text));
        return string(text);
      }
      case ondemand::json_type::number:
        return read_number(value.raw_json_token());
      case ondemand::json_type::boolean: {
        bool flag = false;
        check(value.get_bool().get(flag));
        return Value::boolean(flag);
      }
      case ondemand::json_type::null:
        if (without_spaces(value.raw_json_token()) != "null") value_error("not valid JSON");
        return Value();
    }
    value_error("not valid JSON");
  }

  Value read_array(ondemand::value& value, int depth) {
    ondemand::array array;
    check(value.get_array().get(array));
    std::vector<Value> items;
    for (auto element : array) {
      ondemand::value item;
      check(element.get(item));
      items.push_back(read_value(item, depth + 1));
    }
    return Value::list(std::move(items));
  }

  Value read_object(ondemand::value& value, int depth) {
    ondemand::object object;
    check(value.get_object().get(object));
    Dict entries;
    for (auto element : object) {
      ondemand::field field;
      check(std::move(element).get(field));
      std::string_view key;
      check(field.unescaped_key().get(key));
      Value name = string(key);  // the view lasts until the next string is read
      entries.set(std::move(name), read_value(field.value(), depth + 1));
    }
    return Value::dict(std::move(entries));
  }

  /// A raw token reaches up to the next one.
  static std::string_view without_spaces(std::string_view token) {
    return token.substr(0, token.find_last_not_of(" \t\r\n") + 1);
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  /// The grammar of JSON numbers, so that any integer stays exact.
  static Value read_number(std::string_view token) {
    token = without_spaces(token);
    std::size_t at = token.starts_with('-') ? 1 : 0;
    const auto digits = [&] {
      const std::size_t begin = at;
      while (at < token.size() && is_digit(token[at])) ++at;
      return at - begin;
    };
    const bool leading_zero = at < token.size() && token[at] == '0';
    const std::size_t whole = digits();
    bool valid = whole > 0 && !(leading_zero && whole > 1);
    bool real = false;
    if (at < token.size() && token[at] == '.') {
      ++at;
      real = true;
      valid &= digits() > 0;
    }
    if (at < token.size() && (token[at] | 0x20) == 'e') {
      ++at;
      real = true;
      if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
      valid &= digits() > 0;
    }
    if (!valid || at != token.size()) value_error("not valid JSON: a number is malformed");
    if (real) {
      // Not from_chars, which leaves a number alone that is out of range.
      return Value::real(std::strtod(std::string(token).c_str(), nullptr));
    }
    std::int64_t number = 0;
    const auto result = std::from_chars(token.data(), token.data() + token.size(), number);
    return result.ec == std::errc() ? Value::integer(number)
                                    : Value::big_integer(std::string(token));
  }

  bool untrusted_;
};

}  // namespace

Value value_from_json(std::string_view json, bool untrusted) {
  return Reader(untrusted).read(json);
}

}  // namespace sluice::jinja
