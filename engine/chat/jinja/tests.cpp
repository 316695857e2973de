// What may follow `is`.
#include <algorithm>
#include <array>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/arguments.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/operators.hpp"

namespace sluice::jinja {

namespace {

template <bool (*kProperty)(const Value&)>
bool property(Interpreter&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("this test", arguments, {});
  return kProperty(input);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is_bool();
}
bool is_true(const Value& value) {
  return value.is_bool() && value.as_bool();
}
bool is_false(const Value& value) {
  return value.is_bool() && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.is_int() || value.is_big_integer();
}
bool is_float(const Value& value) {
  return value.is_float();
}
bool is_string(const Value& value) {
  return value.is_text();
}
bool is_mapping(const Value& value) {
  return value.is_dict();
}
bool is_number(const Value& value) {
  return value.is_number() || value.is_big_integer();
}
bool is_sequence(const Value& value) {
  return value.is_text() || value.is_dict() || value.is_undefined() ||
         value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple) ||
         value.is_sequence(SequenceType::kRange);
}
bool is_callable(const Value& value) {
  return value.is_callable() || value.is_undefined() ||
         (value.is_object() && value.as_object().callable() != nullptr);
}
bool is_escaped(const Value& value) {
  return value.is_text() && value.as_text().escaped;
}

template <CompareOp kOp>
bool compares(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("this test", arguments, {"other"}, 1);
  return apply_compare(interpreter, kOp, input, *bound[0]);
}

bool divisible(Interpreter& interpreter, const Value& input, const Value& by) {
  const Value rest = apply_binary(interpreter, BinaryOp::kModulo, input, by);
  return rest.is_number() && rest.as_double() == 0;
}

bool divisibleby(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("divisibleby", arguments, {"num"}, 1);
  return divisible(interpreter, input, *bound[0]);
}

bool even(Interpreter& interpreter, const Value& input, const Arguments&) {
  return divisible(interpreter, input, Value::integer(2));
}

bool odd(Interpreter& interpreter, const Value& input, const Arguments&) {
  const Value rest = apply_binary(interpreter, BinaryOp::kModulo, input, Value::integer(2));
  return rest.is_number() && rest.as_double() == 1;
}

bool letter_case(Interpreter& interpreter, const Value& input, std::string_view method) {
  const Value text = interpreter.call_filter("string", input, {});
  return find_method(text, method)->function(interpreter, text, {}).truthy();
}

bool lower_case(Interpreter& interpreter, const Value& input, const Arguments&) {
  return letter_case(interpreter, input, "islower");
}

bool upper_case(Interpreter& interpreter, const Value& input, const Arguments&) {
  return letter_case(interpreter, input, "isupper");
}

/// Identity. Numbers and texts count as the same when they are equal and of one type.
bool sameas(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sameas", arguments, {"other"}, 1);
  const Value& other = *bound[0];
  if (input.storage().index() != other.storage().index()) return false;
  if (input.is_sequence() || input.is_dict()) return input.storage() == other.storage();
  return equals(interpreter.budget(), input, other);
}

bool iterable(Interpreter&, const Value& input, const Arguments&) {
  return is_iterable(input);
}

bool names_filter(Interpreter& interpreter, const Value& input, const Arguments&) {
  return input.is_text() && filter_exists(input.bytes(), interpreter.options().relaxed);
}

bool names_test(Interpreter&, const Value& input, const Arguments&) {
  return input.is_text() && test_exists(input.bytes());
}

struct NamedPredicate {
  std::string_view name;
  Predicate function;
};

constexpr std::array<NamedPredicate, 39> kTests = {{
    {"defined", property<is_defined>},
    {"undefined", property<is_undefined>},
    {"none", property<is_none>},
    {"boolean", property<is_boolean>},
    {"true", property<is_true>},
    {"false", property<is_false>},
    {"integer", property<is_integer>},
    {"float", property<is_float>},
    {"string", property<is_string>},
    {"mapping", property<is_mapping>},
    {"number", property<is_number>},
    {"sequence", property<is_sequence>},
    {"callable", property<is_callable>},
    {"escaped", property<is_escaped>},
    {"iterable", iterable},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisibleby},
    {"lower", lower_case},
    {"upper", upper_case},
    {"sameas", sameas},
    {"filter", names_filter},
    {"test", names_test},
    {"in", compares<CompareOp::kIn>},
    {"==", compares<CompareOp::kEqual>},
    {"eq", compares<CompareOp::kEqual>},
    {"equalto", compares<CompareOp::kEqual>},
    {"!=", compares<CompareOp::kNotEqual>},
    {"ne", compares<CompareOp::kNotEqual>},
    {"<", compares<CompareOp::kLess>},
    {"lt", compares<CompareOp::kLess>},
    {"lessthan", compares<CompareOp::kLess>},
    {"<=", compares<CompareOp::kLessEqual>},
    {"le", compares<CompareOp::kLessEqual>},
    {">", compares<CompareOp::kGreater>},
    {"gt", compares<CompareOp::kGreater>},
    {"greaterthan", compares<CompareOp::kGreater>},
    {">=", compares<CompareOp::kGreaterEqual>},
    {"ge", compares<CompareOp::kGreaterEqual>},
}};

}  // namespace

Predicate find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [&](const NamedPredicate& test) { return test.name == name; });
  return found != kTests.end() ? found->function : nullptr;
}

}  // namespace sluice::jinja
