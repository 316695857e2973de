// The statements of the interpreter.
#include <algorithm>
#include <utility>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/loop.hpp"
#include "engine/chat/jinja/python_format.hpp"

namespace sluice::jinja {

Interpreter::Flow Interpreter::run(const Block& block) {
  const Budget::Level level(budget_);
  for (const Stmt& stmt : block) {
    const Flow flow = run(stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const Stmt& stmt) {
  budget_.node();
  line_ = stmt.line;
  Flow flow = Flow::kNormal;
  switch (stmt.kind) {
    case StmtKind::kData:
      out_->append(*stmt.text);
      return flow;
    case StmtKind::kOutput:
      append_str(*out_, budget_, evaluate(*stmt.expr));
      return flow;
    case StmtKind::kIf:
      return run_if(stmt);
    case StmtKind::kFor:
      return run_for(stmt, evaluate(*stmt.expr), 0);
    case StmtKind::kSet:
      assign(stmt.target, evaluate(*stmt.expr));
      return flow;
    case StmtKind::kSetBlock:
      run_set_block(stmt, flow);
      return flow;
    case StmtKind::kMacro:
      scope_->set(stmt.macro->symbol, make_macro(*stmt.macro));
      return flow;
    case StmtKind::kCall:
      run_call(stmt);
      return flow;
    case StmtKind::kFilter: {
      const Value text = Value::text(capture(stmt.body, flow));
      const Value* const outer = std::exchange(block_text_, &text);
      append_str(*out_, budget_, evaluate(*stmt.expr));
      block_text_ = outer;
      return flow;
    }
    case StmtKind::kWith:
      return run_with(stmt);
    case StmtKind::kScope: {
      const Enter enter(*this, new_scope());
      return run(stmt.body);
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return flow;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (branch.condition == nullptr || evaluate(*branch.condition).truthy()) {
      return run(branch.body);
    }
  }
  return Flow::kNormal;
}

std::vector<Value> Interpreter::filter_items(const Stmt& stmt, std::vector<Value> items) {
  std::vector<Value> kept;
  for (Value& item : items) {
    const Enter enter(*this, new_scope());
    assign(stmt.target, item);
    if (evaluate(*stmt.condition).truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt, const Value& iterable,
                                       std::int64_t depth0) {
  std::vector<Value> items = iterate(*this, iterable);
  if (stmt.condition != nullptr) items = filter_items(stmt, std::move(items));
  const auto loop = std::make_shared<Loop>(std::move(items), depth0, stmt, scope_);
  // As in the reference, `else` also runs when no iteration reached the end of the body.
  bool any_complete = false;
  for (std::size_t i = 0; i < loop->items().size(); ++i) {
    budget_.allocate(sizeof(Scope));
    const Enter enter(*this, new_scope());
    loop->set_index(i);
    if (loop_symbol_ >= 0) scope_->set(loop_symbol_, Value::object(loop));
    assign(stmt.target, loop->items()[i]);
    const Flow flow = run(stmt.body);
    if (flow == Flow::kBreak) break;
    any_complete |= flow == Flow::kNormal;
  }
  if (any_complete || stmt.otherwise.empty()) return Flow::kNormal;
  const Enter enter(*this, new_scope());
  return run(stmt.otherwise);
}

Value Interpreter::recurse(const Stmt& stmt, const std::shared_ptr<Scope>& scope,
                           const Value& items, std::int64_t depth0) {
  TextBuilder out(budget_);
  TextBuilder* const outer = std::exchange(out_, &out);
  const Enter enter(*this, scope);
  run_for(stmt, items, depth0);
  out_ = outer;
  return Value::text(out.take_shared());
}

TextPtr Interpreter::capture(const Block& block, Flow& flow) {
  TextBuilder out(budget_);
  TextBuilder* const outer = std::exchange(out_, &out);
  const Enter enter(*this, new_scope());
  flow = run(block);
  out_ = outer;
  return out.take_shared();
}

void Interpreter::run_set_block(const Stmt& stmt, Flow& flow) {
  const Value text = Value::text(capture(stmt.body, flow));
  if (flow != Flow::kNormal) return;
  if (stmt.expr == nullptr) {
    assign(stmt.target, text);
    return;
  }
  const Value* const outer = std::exchange(block_text_, &text);
  const Value filtered = evaluate(*stmt.expr);
  block_text_ = outer;
  assign(stmt.target, filtered);
}

Interpreter::Flow Interpreter::run_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.bindings) values.push_back(evaluate(*expr));
  const Enter enter(*this, new_scope());
  for (std::size_t i = 0; i < values.size(); ++i) assign(stmt.bindings[i].first, values[i]);
  return run(stmt.body);
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.is_tuple) {
    if (target.attribute.empty()) {
      scope_->set(target.symbol, value);
      return;
    }
    const Value* object = scope_->find(target.symbol);
    if (object == nullptr || !object->is_namespace()) {
      throw Failure(FailureKind::kRuntime, "cannot assign attribute on non-namespace object");
    }
    object->as_namespace().set(target.attribute, value);
    return;
  }
  line_ = target.line;
  const std::vector<Value> items = iterate(*this, value);
  if (items.size() != target.parts.size()) {
    const std::string expected = std::to_string(target.parts.size());
    value_error(items.size() > target.parts.size()
                    ? "too many values to unpack (expected " + expected + ")"
                    : "not enough values to unpack (expected " + expected + ", got " +
                          std::to_string(items.size()) + ")");
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
}

Value Interpreter::make_macro(const Macro& macro) {
  budget_.allocate(sizeof(Callable));
  closures_.push_back(scope_);
  auto function = std::make_shared<Callable>();
  function->name = macro.name;
  function->is_macro = true;
  function->measure.depth = 1;
  function->call = [&macro, scope = scope_](Interpreter& interpreter, const Arguments& arguments) {
    return interpreter.invoke(macro, scope, arguments);
  };
  return Value::callable(std::move(function));
}

void Interpreter::run_call(const Stmt& stmt) {
  const Value caller = make_macro(*stmt.macro);
  append_str(*out_, budget_, evaluate_call(*stmt.expr, &caller));
}

Value Interpreter::invoke(const Macro& macro, const std::shared_ptr<Scope>& closure,
                          const Arguments& arguments) {
  const Enter enter(*this, std::make_shared<Scope>(closure));
  bind_parameters(macro, arguments);
  TextBuilder out(budget_);
  TextBuilder* const outer = std::exchange(out_, &out);
  run(macro.body);
  out_ = outer;
  return Value::text(out.take_shared());
}

void Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments) {
  const auto& parameters = macro.parameters;
  const auto& positional = arguments.positional;
  auto keywords = arguments.keywords;
  const auto take_keyword = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::find_if(keywords.begin(), keywords.end(),
                                    [&](const auto& keyword) { return keyword.first == name; });
    if (found == keywords.end()) return std::nullopt;
    Value value = std::move(found->second);
    keywords.erase(found);
    return value;
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = tree_.symbols.name(parameters[i].symbol);
    if (i < positional.size()) {
      scope_->set(parameters[i].symbol, positional[i]);
    } else if (auto value = take_keyword(name)) {
      scope_->set(parameters[i].symbol, std::move(*value));
    } else if (parameters[i].default_value != nullptr) {
      scope_->set(parameters[i].symbol, evaluate(*parameters[i].default_value));
    } else {
      scope_->set(parameters[i].symbol,
                  Value::undefined("parameter " + quoted(name) + " was not provided"));
    }
  }
  const std::string called = "macro " + quoted(macro.name);
  const bool caller_is_parameter =
      std::any_of(parameters.begin(), parameters.end(),
                  [&](const Parameter& parameter) { return parameter.symbol == caller_symbol_; });
  if (macro.takes_caller && !caller_is_parameter) {
    auto caller = take_keyword("caller");
    scope_->set(caller_symbol_, caller ? *caller : Value::undefined("No caller defined"));
  }
  if (macro.takes_kwargs) {
    Dict rest;
    for (auto& [name, value] : keywords) rest.set(Value::text(name), std::move(value));
    scope_->set(kwargs_symbol_, Value::dict(std::move(rest)));
  } else if (!keywords.empty()) {
    type_error(called + " takes no keyword argument " + quoted(keywords.front().first));
  }
  if (macro.takes_varargs) {
    const auto first = std::min(parameters.size(), positional.size());
    scope_->set(
        varargs_symbol_,
        Value::tuple({positional.begin() + static_cast<std::ptrdiff_t>(first), positional.end()}));
  } else if (positional.size() > parameters.size()) {
    type_error(called + " takes not more than " + std::to_string(parameters.size()) +
               " argument(s)");
  }
}

}  // namespace sluice::jinja
