#include "engine/chat/jinja/interpreter.hpp"

#include <algorithm>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/python_format.hpp"

namespace sluice::jinja {

const Value* Scope::find(Symbol symbol) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    if (scope->parent_ == nullptr) {
      const auto& variable = scope->dense_[static_cast<std::size_t>(symbol)];
      return variable ? &*variable : nullptr;
    }
    for (const auto& [name, value] : scope->variables_) {
      if (name == symbol) return &value;
    }
  }
  return nullptr;
}

void Scope::set(Symbol symbol, Value value) {
  if (parent_ == nullptr) {
    dense_[static_cast<std::size_t>(symbol)] = std::move(value);
    return;
  }
  for (auto& [name, old] : variables_) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  variables_.emplace_back(symbol, std::move(value));
}

void Scope::clear() {
  variables_.clear();
  for (auto& variable : dense_) variable.reset();
}

Interpreter::Interpreter(const Tree& tree, const RenderOptions& options)
    : tree_(tree),
      options_(options),
      budget_(options.limits),
      loop_symbol_(tree.symbols.find("loop")),
      varargs_symbol_(tree.symbols.find("varargs")),
      kwargs_symbol_(tree.symbols.find("kwargs")),
      caller_symbol_(tree.symbols.find("caller")) {}

Interpreter::~Interpreter() {
  for (const auto& scope : closures_) scope->clear();
  for (const auto& object : namespaces_) object->clear();
  for (const auto& object : objects_) object->release();
  for (const Value& container : containers_) {
    if (container.is_dict()) container.as_dict().clear();
    if (container.is_sequence()) container.as_sequence().items.clear();
  }
}

Text Interpreter::render(const Value& context) {
  scope_ = std::make_shared<Scope>(tree_.symbols.size());
  closures_.push_back(scope_);
  for (std::size_t i = 0; i < tree_.symbols.size(); ++i) {
    const auto symbol = static_cast<Symbol>(i);
    const std::string& name = tree_.symbols.name(symbol);
    const Value* variable = context.is_dict() ? context.as_dict().find(name) : nullptr;
    if (variable != nullptr) {
      budget_.allocate(variable->measure().weight * sizeof(Value));
      scope_->set(symbol, deep_copy(*variable));
    } else if (Value global = find_global(name); !global.is_undefined()) {
      scope_->set(symbol, std::move(global));
    }
  }
  TextBuilder out(budget_);
  out_ = &out;
  run(tree_.body);
  return out.take();
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  const Budget::Level level(budget_);
  budget_.node();
  require_defined(callee);
  if (callee.is_callable()) return callee.as_callable().call(*this, arguments);
  if (callee.is_object()) {
    if (const auto* function = callee.as_object().callable()) return (*function)(*this, arguments);
  }
  type_error("'" + callee.type_name() + "' object is not callable");
}

Value Interpreter::call_filter(std::string_view name, const Value& input,
                               const Arguments& arguments) {
  const Builtin filter = find_filter(name, options_.relaxed);
  if (filter == nullptr) {
    throw Failure(FailureKind::kRuntime, "No filter named " + quoted(name) + " found.");
  }
  budget_.node();
  return filter(*this, input, arguments);
}

bool Interpreter::call_test(std::string_view name, const Value& input, const Arguments& arguments) {
  const Predicate test = find_test(name);
  if (test == nullptr) {
    throw Failure(FailureKind::kRuntime, "No test named " + quoted(name) + " found.");
  }
  budget_.node();
  return test(*this, input, arguments);
}

void Interpreter::charge_key(const Value& key) {
  budget_.work(key.is_text() ? key.bytes().size() : key.measure().weight);
}

std::shared_ptr<Scope> Interpreter::new_scope() {
  return std::make_shared<Scope>(scope_);
}

}  // namespace sluice::jinja
