// The expressions of the interpreter.
#include <algorithm>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/operators.hpp"
#include "engine/chat/jinja/python_format.hpp"

namespace sluice::jinja {

Value Interpreter::evaluate(const Expr& expr) {
  const Budget::Level level(budget_);
  budget_.node();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return evaluate_name(expr);
    case ExprKind::kList:
      return evaluate_sequence(expr, SequenceType::kList);
    case ExprKind::kTuple:
      return evaluate_sequence(expr, SequenceType::kTuple);
    case ExprKind::kDict:
      return evaluate_dict(expr);
    case ExprKind::kConcat:
      return evaluate_concat(expr);
    case ExprKind::kCompare:
      return evaluate_compare(expr);
    case ExprKind::kConditional:
      return evaluate_conditional(expr);
    case ExprKind::kItem:
      return evaluate_item(expr);
    case ExprKind::kCall:
      return evaluate_call(expr, nullptr);
    case ExprKind::kFilter:
      return evaluate_filter(expr);
    case ExprKind::kTest:
      return evaluate_test(expr);
    case ExprKind::kBlockText:
      return block_text_ != nullptr ? *block_text_ : Value::text("");
    default:
      return evaluate_operation(expr);
  }
}

Value Interpreter::evaluate_operation(const Expr& expr) {
  Value first = evaluate(*expr.operands[0]);
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kNot:
      return Value::boolean(!first.truthy());
    case ExprKind::kNegate:
      return negate(first);
    case ExprKind::kPlus:
      return negate(negate(first));
    case ExprKind::kAnd:
      return first.truthy() ? evaluate(*expr.operands[1]) : std::move(first);
    case ExprKind::kOr:
      return first.truthy() ? std::move(first) : evaluate(*expr.operands[1]);
    case ExprKind::kAttribute:
      return get_attribute(*this, first, expr.name);
    default:
      break;
  }
  const Value second = evaluate(*expr.operands[1]);
  line_ = expr.line;
  return apply_binary(*this, expr.op, first, second);
}

Value Interpreter::evaluate_name(const Expr& expr) {
  if (const Value* value = scope_->find(expr.symbol)) return *value;
  return Value::undefined(quoted(tree_.symbols.name(expr.symbol)) + " is undefined");
}

Value Interpreter::evaluate_sequence(const Expr& expr, SequenceType type) {
  std::vector<Value> items;
  budget_.allocate(expr.operands.size() * sizeof(Value) + sizeof(Sequence));
  items.reserve(expr.operands.size());
  for (const ExprPtr& operand : expr.operands) items.push_back(evaluate(*operand));
  return Value::sequence(type, std::move(items));
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  Dict dict;
  budget_.allocate(expr.operands.size() * sizeof(Value) + sizeof(Dict));
  for (std::size_t i = 0; i + 1 < expr.operands.size(); i += 2) {
    Value key = evaluate(*expr.operands[i]);
    charge_key(key);
    dict.set(std::move(key), evaluate(*expr.operands[i + 1]));
  }
  return Value::dict(std::move(dict));
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  TextBuilder out(budget_);
  for (const ExprPtr& operand : expr.operands) append_str(out, budget_, evaluate(*operand));
  return Value::text(out.take_shared());
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.operands[0]);
  for (std::size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = evaluate(*expr.operands[i + 1]);
    line_ = expr.line;
    if (!apply_compare(*this, expr.comparisons[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (evaluate(*expr.operands[0]).truthy()) return evaluate(*expr.operands[1]);
  if (expr.operands[2] != nullptr) return evaluate(*expr.operands[2]);
  return Value::undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " evaluated to false and no else section was defined.");
}

Value Interpreter::evaluate_item(const Expr& expr) {
  const Value object = evaluate(*expr.operands[0]);
  const Expr& index = *expr.operands[1];
  if (index.kind != ExprKind::kSlice) {
    const Value key = evaluate(index);
    line_ = expr.line;
    return get_item(*this, object, key);
  }
  Value parts[3];
  const Value* given[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    if (index.operands[i] == nullptr) continue;
    parts[i] = evaluate(*index.operands[i]);
    given[i] = &parts[i];
  }
  line_ = expr.line;
  return get_slice(*this, object, given[0], given[1], given[2]);
}

Arguments Interpreter::evaluate_arguments(const Expr& expr) {
  Arguments arguments;
  arguments.positional.reserve(expr.operands.size() - 1);
  for (std::size_t i = 1; i < expr.operands.size(); ++i) {
    arguments.positional.push_back(evaluate(*expr.operands[i]));
  }
  for (const auto& [name, value] : expr.keywords) {
    arguments.keywords.emplace_back(name, evaluate(*value));
  }
  if (expr.star != nullptr) {
    for (Value& item : iterate(*this, evaluate(*expr.star))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (expr.double_star != nullptr) {
    const Value extra = evaluate(*expr.double_star);
    if (!extra.is_dict()) type_error("the argument after ** must be a mapping");
    for (const auto& [name, value] : extra.as_dict().entries()) {
      if (!name.is_text()) type_error("keywords must be strings");
      budget_.allocate(sizeof(Value) + name.bytes().size());
      arguments.keywords.emplace_back(name.bytes(), value);
    }
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Expr& callee = *expr.operands[0];
  // object.method(...): no need to make a bound method first.
  if (callee.kind == ExprKind::kAttribute && caller == nullptr) {
    const Value object = evaluate(*callee.operands[0]);
    line_ = expr.line;
    const NamedBuiltin* method = object.is_undefined() ? nullptr : find_method(object, callee.name);
    if (method != nullptr && (!method->mutates || options_.relaxed)) {
      const Arguments arguments = evaluate_arguments(expr);
      line_ = expr.line;
      return method->function(*this, object, arguments);
    }
    const Value attribute = get_attribute(*this, object, callee.name);
    const Arguments arguments = evaluate_arguments(expr);
    line_ = expr.line;
    return call(attribute, arguments);
  }
  const Value function = evaluate(callee);
  Arguments arguments = evaluate_arguments(expr);
  if (caller != nullptr) arguments.keywords.emplace_back("caller", *caller);
  line_ = expr.line;
  return call(function, arguments);
}

Value Interpreter::evaluate_filter(const Expr& expr) {
  const Value input = evaluate(*expr.operands[0]);
  const Arguments arguments = evaluate_arguments(expr);
  line_ = expr.line;
  return call_filter(expr.name, input, arguments);
}

Value Interpreter::evaluate_test(const Expr& expr) {
  const Value input = evaluate(*expr.operands[0]);
  const Arguments arguments = evaluate_arguments(expr);
  line_ = expr.line;
  return Value::boolean(call_test(expr.name, input, arguments));
}

}  // namespace sluice::jinja
