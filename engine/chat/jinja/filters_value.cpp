// Filters on numbers and on values of any kind.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/json_output.hpp"
#include "engine/chat/jinja/json_value.hpp"
#include "engine/chat/jinja/operators.hpp"
#include "engine/chat/jinja/python_format.hpp"
#include "engine/chat/jinja/text_tools.hpp"

namespace sluice::jinja {

namespace {

Value default_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("default", arguments, {"default_value", "boolean"});
  const bool replaced = input.is_undefined() || (bound.flag(1, false) && !input.truthy());
  if (!replaced) return input;
  return bound[0] != nullptr ? *bound[0] : Value::text("");
}

std::optional<Value> real_to_integer(double number) {
  if (!(std::abs(number) < 9.2e18)) return std::nullopt;
  return Value::integer(static_cast<std::int64_t>(std::trunc(number)));
}

Value int_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("int", arguments, {"default", "base"});
  require_defined(input);
  const Value otherwise = bound[0] != nullptr ? *bound[0] : Value::integer(0);
  if (input.is_big_integer()) return input;
  if (input.is_integral()) return Value::integer(input.as_int());
  if (input.is_float()) return real_to_integer(input.as_double()).value_or(otherwise);
  if (!input.is_text()) return otherwise;
  const std::int64_t base = bound.integer(1, 10);
  if (base >= 0 && base <= 36) {
    if (const auto number = parse_integer(input.bytes(), static_cast<int>(base))) return *number;
  }
  const auto real = parse_real(input.bytes());
  return real ? real_to_integer(*real).value_or(otherwise) : otherwise;
}

Value float_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("float", arguments, {"default"});
  require_defined(input);
  if (input.is_number()) return Value::real(input.as_double());
  if (input.is_big_integer()) {
    return Value::real(std::strtod(input.as_big_integer().digits.c_str(), nullptr));
  }
  if (input.is_text()) {
    if (const auto number = parse_real(input.bytes())) return Value::real(*number);
  }
  return bound[0] != nullptr ? *bound[0] : Value::real(0);
}

Value abs_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("abs", arguments, {});
  require_defined(input);
  if (input.is_float()) return Value::real(std::abs(input.as_double()));
  if (!input.is_integral()) type_error("bad operand type for abs(): '" + input.type_name() + "'");
  return input.as_int() < 0 ? negate(input) : Value::integer(input.as_int());
}

/// Rounds to `digits` decimals, exactly, halves to even: what printing with that precision does.
double round_real(double number, std::int64_t digits) {
  if (!std::isfinite(number) || digits > 300) return number;
  if (digits >= 0) {
    char buffer[800];
    std::snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), number);
    return std::strtod(buffer, nullptr);
  }
  if (digits < -308) return 0.0 * number;
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / scale) * scale;
}

Value round_filter(Interpreter&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("round", arguments, {"precision", "method"});
  require_defined(input);
  if (!input.is_number()) {
    type_error("type " + input.type_name() + " doesn't define __round__ method");
  }
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound[1] != nullptr ? bound.text(1)->bytes : "common";
  if (method == "common") {
    if (input.is_integral() && precision >= 0) return Value::integer(input.as_int());
    const double rounded = round_real(input.as_double(), precision);
    return input.is_integral() ? real_to_integer(rounded).value_or(input) : Value::real(rounded);
  }
  if (method != "ceil" && method != "floor") {
    value_error("method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = input.as_double() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value tojson_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("tojson", arguments,
                             {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bound.flag(0, false);
  style.sort_keys = bound.flag(3, false);
  if (const Value* indent = bound.value(1)) {
    style.item_separator = ",";
    if (indent->is_text()) {
      style.indent = indent->bytes();
    } else {
      const std::int64_t width = bound.integer(1, 0);
      if (width > 1000) value_error("tojson() cannot indent by more than 1000");
      style.indent = std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
    }
  }
  if (const Value* separators = bound.value(2)) {
    const std::vector<Value> parts = iterate(interpreter, *separators);
    if (parts.size() != 2 || !parts[0].is_text() || !parts[1].is_text()) {
      value_error("tojson() needs two strings as separators");
    }
    style.item_separator = parts[0].bytes();
    style.key_separator = parts[1].bytes();
  }
  TextBuilder out(interpreter.budget());
  append_json(out, interpreter.budget(), input, style);
  return Value::text(out.take_shared());
}

Value from_json_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("from_json", arguments, {});
  require_defined(input);
  if (!input.is_text()) type_error("from_json() needs a string, not " + input.type_name());
  // A value can take many times the size of its text.
  interpreter.budget().allocate(input.bytes().size() * 16);
  return value_from_json(input.bytes(), input.as_text().any_untrusted());
}

Value attr_filter(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("attr", arguments, {"name"}, 1);
  // Attributes only, never items.
  if (input.is_dict() && find_method(input, bound.text(0)->bytes) == nullptr) {
    return Value::undefined("'dict object' has no attribute " + quoted(bound.text(0)->bytes));
  }
  return get_attribute(interpreter, input, bound.text(0)->bytes);
}

constexpr std::array<NamedBuiltin, 9> kFilters = {{
    {"default", default_filter},
    {"d", default_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"tojson", tojson_filter},
    {"from_json", from_json_filter},
    {"attr", attr_filter},
}};

}  // namespace

std::span<const NamedBuiltin> value_filters() {
  return kFilters;
}

}  // namespace sluice::jinja
