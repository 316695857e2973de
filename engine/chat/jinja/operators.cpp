#include "engine/chat/jinja/operators.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/string_format.hpp"
#include "engine/chat/jinja/text_search.hpp"

namespace sluice::jinja {

namespace {

const char* symbol_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "+";
    case BinaryOp::kSubtract:
      return "-";
    case BinaryOp::kMultiply:
      return "*";
    case BinaryOp::kDivide:
      return "/";
    case BinaryOp::kFloorDivide:
      return "//";
    case BinaryOp::kModulo:
      return "%";
    case BinaryOp::kPower:
      return "** or pow()";
  }
  return "?";
}

[[noreturn]] void unsupported(BinaryOp op, const Value& left, const Value& right) {
  if (left.is_big_integer() || right.is_big_integer()) {
    value_error("integers of more than 64 bits can be printed and compared, not calculated with");
  }
  type_error(std::string("unsupported operand type(s) for ") + symbol_of(op) + ": '" +
             left.type_name() + "' and '" + right.type_name() + "'");
}

[[noreturn]] void overflow() {
  value_error("the result does not fit into 64 bits");
}

Value power_of_integers(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) value_error("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow();
  }
  return Value::integer(result);
}

Value integer_arithmetic(BinaryOp op, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case BinaryOp::kAdd:
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case BinaryOp::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case BinaryOp::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) overflow();
      return Value::integer(result);
    case BinaryOp::kDivide:
      if (b == 0) value_error("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOp::kFloorDivide:
      if (b == 0) value_error("integer division or modulo by zero");
      if (b == -1) {
        if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) overflow();
        return Value::integer(result);
      }
      return Value::integer(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    case BinaryOp::kModulo:
      if (b == 0) value_error("integer modulo by zero");
      if (b == -1) return Value::integer(0);
      result = a % b;
      return Value::integer(result != 0 && (result < 0) != (b < 0) ? result + b : result);
    case BinaryOp::kPower:
      return power_of_integers(a, b);
  }
  overflow();
}

Value real_arithmetic(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(a + b);
    case BinaryOp::kSubtract:
      return Value::real(a - b);
    case BinaryOp::kMultiply:
      return Value::real(a * b);
    case BinaryOp::kDivide:
      if (b == 0) value_error("float division by zero");
      return Value::real(a / b);
    case BinaryOp::kFloorDivide:
      if (b == 0) value_error("float floor division by zero");
      return Value::real(std::floor(a / b));
    case BinaryOp::kModulo: {
      if (b == 0) value_error("float modulo");
      const double rest = std::fmod(a, b);
      return Value::real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
    }
    case BinaryOp::kPower: {
      const double result = std::pow(a, b);
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) value_error("not a real number");
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
        value_error("the result of ** is too large");
      }
      return Value::real(result);
    }
  }
  return Value::real(0);
}

Value add_texts(Interpreter& interpreter, const Text& left, const Text& right) {
  TextBuilder out(interpreter.budget());
  const bool escaped = left.escaped || right.escaped;
  const auto append = [&](const Text& part) {
    if (escaped && !part.escaped) {
      out.append(*escape_html(interpreter.budget(), part));
    } else {
      out.append(part);
    }
  };
  append(left);
  append(right);
  out.set_escaped(escaped);
  return Value::text(out.take_shared());
}

Value add_sequences(Interpreter& interpreter, const Value& left, const Value& right) {
  interpreter.budget().allocate((left.items().size() + right.items().size()) * sizeof(Value));
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return Value::sequence(left.as_sequence().type, std::move(items));
}

Value add_others(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.is_text()) {
    if (right.is_text()) return add_texts(interpreter, left.as_text(), right.as_text());
    type_error("can only concatenate str (not \"" + right.type_name() + "\") to str");
  }
  const bool joins =
      left.is_sequence(SequenceType::kList) || left.is_sequence(SequenceType::kTuple);
  if (joins && right.is_sequence(left.as_sequence().type)) {
    return add_sequences(interpreter, left, right);
  }
  if (joins) {
    const std::string type = left.type_name();
    type_error("can only concatenate " + type + " (not \"" + right.type_name() + "\") to " + type);
  }
  unsupported(BinaryOp::kAdd, left, right);
}

Value repeat(Interpreter& interpreter, const Value& what, std::int64_t times) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
  if (what.is_text()) {
    TextBuilder out(interpreter.budget());
    out.repeat(what.as_text(), count);
    out.set_escaped(what.as_text().escaped);
    return Value::text(out.take_shared());
  }
  const std::size_t size = what.items().size();
  if (size != 0 && count > (std::size_t{1} << 32) / size) {
    interpreter.budget().allocate(std::uint64_t{1} << 62);
  }
  interpreter.budget().allocate(size * count * sizeof(Value));
  std::vector<Value> items;
  items.reserve(size * count);
  for (std::size_t i = 0; i < (size != 0 ? count : 0); ++i) {
    items.insert(items.end(), what.items().begin(), what.items().end());
  }
  return Value::sequence(what.as_sequence().type, std::move(items));
}

bool repeatable(const Value& value) {
  return value.is_text() || value.is_sequence(SequenceType::kList) ||
         value.is_sequence(SequenceType::kTuple);
}

/// -1, 0 or 1 for integers of any size.
int compare_integers(const Value& left, const Value& right) {
  const auto digits = [](const Value& value) {
    return value.is_big_integer() ? value.as_big_integer().digits : std::to_string(value.as_int());
  };
  const std::string a = digits(left);
  const std::string b = digits(right);
  const bool a_negative = a.front() == '-';
  if (a_negative != (b.front() == '-')) return a_negative ? -1 : 1;
  const int order = a.size() != b.size() ? (a.size() < b.size() ? -1 : 1) : a.compare(b);
  return a_negative ? -order : order;
}

double real_of(const Value& value) {
  return value.is_big_integer() ? std::strtod(value.as_big_integer().digits.c_str(), nullptr)
                                : value.as_double();
}

bool less_sequences(Interpreter& interpreter, const std::vector<Value>& left,
                    const std::vector<Value>& right) {
  const std::size_t common = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < common; ++i) {
    if (!equals(interpreter.budget(), left[i], right[i])) {
      return less_than(interpreter, left[i], right[i]);
    }
  }
  return left.size() < right.size();
}

bool ordered(Interpreter& interpreter, const char* symbol, const Value& left, const Value& right) {
  const Budget::Level level(interpreter.budget());
  interpreter.budget().node();
  require_defined(left);
  require_defined(right);
  if (left.is_text() && right.is_text()) {
    interpreter.budget().work(std::min(left.bytes().size(), right.bytes().size()) / 16);
    return left.bytes() < right.bytes();
  }
  const bool left_number = left.is_number() || left.is_big_integer();
  const bool right_number = right.is_number() || right.is_big_integer();
  if (left_number && right_number) {
    if (left.is_float() || right.is_float()) return real_of(left) < real_of(right);
    if (left.is_big_integer() || right.is_big_integer()) return compare_integers(left, right) < 0;
    return left.as_int() < right.as_int();
  }
  if (left.is_sequence() && right.is_sequence() &&
      left.as_sequence().type == right.as_sequence().type &&
      (left.is_sequence(SequenceType::kList) || left.is_sequence(SequenceType::kTuple))) {
    return less_sequences(interpreter, left.items(), right.items());
  }
  type_error(std::string("'") + symbol + "' not supported between instances of '" +
             left.type_name() + "' and '" + right.type_name() + "'");
}

bool is_nan(const Value& value) {
  return value.is_float() && std::isnan(value.as_double());
}

}  // namespace

Value apply_binary(Interpreter& interpreter, BinaryOp op, const Value& left, const Value& right) {
  if (op == BinaryOp::kModulo && left.is_text()) {
    return Value::text(format_percent(interpreter, left.as_text(), right));
  }
  require_defined(left);
  require_defined(right);
  if (left.is_number() && right.is_number()) {
    if (left.is_float() || right.is_float()) {
      return real_arithmetic(op, left.as_double(), right.as_double());
    }
    return integer_arithmetic(op, left.as_int(), right.as_int());
  }
  if (op == BinaryOp::kAdd) return add_others(interpreter, left, right);
  if (op == BinaryOp::kMultiply) {
    if (repeatable(left) && right.is_integral()) return repeat(interpreter, left, right.as_int());
    if (repeatable(right) && left.is_integral()) return repeat(interpreter, right, left.as_int());
  }
  unsupported(op, left, right);
}

bool less_than(Interpreter& interpreter, const Value& left, const Value& right) {
  return ordered(interpreter, "<", left, right);
}

bool apply_compare(Interpreter& interpreter, CompareOp op, const Value& left, const Value& right) {
  switch (op) {
    case CompareOp::kEqual:
      return equals(interpreter.budget(), left, right);
    case CompareOp::kNotEqual:
      return !equals(interpreter.budget(), left, right);
    case CompareOp::kLess:
      return ordered(interpreter, "<", left, right);
    case CompareOp::kGreater:
      return ordered(interpreter, ">", right, left);
    case CompareOp::kLessEqual:
      return !ordered(interpreter, "<=", right, left) && !is_nan(left) && !is_nan(right);
    case CompareOp::kGreaterEqual:
      return !ordered(interpreter, ">=", left, right) && !is_nan(left) && !is_nan(right);
    case CompareOp::kIn:
      return contains(interpreter, right, left);
    case CompareOp::kNotIn:
      return !contains(interpreter, right, left);
  }
  return false;
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_float()) return Value::real(-value.as_double());
  if (value.is_integral()) return integer_arithmetic(BinaryOp::kSubtract, 0, value.as_int());
  if (value.is_big_integer()) {
    const std::string& digits = value.as_big_integer().digits;
    return Value::big_integer(digits.front() == '-' ? digits.substr(1) : "-" + digits);
  }
  type_error("bad operand type for unary -: '" + value.type_name() + "'");
}

bool contains(Interpreter& interpreter, const Value& container, const Value& item) {
  Budget& budget = interpreter.budget();
  if (container.is_text()) {
    if (!item.is_text()) {
      type_error("'in <string>' requires string as left operand, not " + item.type_name());
    }
    budget.work(container.bytes().size());
    return find_bytes(container.bytes(), item.bytes(), 0) != std::string::npos;
  }
  if (container.is_dict()) {
    interpreter.charge_key(item);
    return container.as_dict().find(item) != nullptr;
  }
  if (container.is_sequence()) {
    Sequence& sequence = container.as_sequence();
    const std::size_t from = sequence.next;
    if (sequence.type == SequenceType::kIterator) sequence.next = sequence.items.size();
    return std::any_of(sequence.items.begin() + static_cast<std::ptrdiff_t>(from),
                       sequence.items.end(),
                       [&](const Value& candidate) { return equals(budget, candidate, item); });
  }
  if (container.is_undefined()) return false;
  type_error("argument of type '" + container.type_name() + "' is not iterable");
}

TextPtr escape_html(Budget& budget, const Text& text) {
  TextBuilder out(budget);
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    const bool untrusted = text.any_untrusted();
    switch (text.bytes[at]) {
      case '&':
        out.append("&amp;", untrusted);
        break;
      case '<':
        out.append("&lt;", untrusted);
        break;
      case '>':
        out.append("&gt;", untrusted);
        break;
      case '\'':
        out.append("&#39;", untrusted);
        break;
      case '"':
        out.append("&#34;", untrusted);
        break;
      default:
        out.append(text, at, at + 1);
    }
  }
  out.set_escaped(true);
  return out.take_shared();
}

}  // namespace sluice::jinja
