#include "engine/chat/jinja/loop.hpp"

#include <algorithm>
#include <utility>

#include "engine/chat/jinja/failure.hpp"

namespace sluice::jinja {

Loop::Loop(std::vector<Value> items, std::int64_t depth0, const Stmt& stmt,
           std::shared_ptr<Scope> scope)
    : items_(std::move(items)), depth0_(depth0) {
  for (const Value& item : items_) add_to_measure(measure_, item.measure());
  if (!stmt.recursive) return;
  recurse_ = [&stmt, scope = std::weak_ptr<Scope>(scope), depth0](Interpreter& interpreter,
                                                                  const Arguments& arguments) {
    const std::shared_ptr<Scope> around = scope.lock();
    if (arguments.positional.size() != 1 || around == nullptr) {
      type_error("loop() takes one argument, the items to go on with, inside the loop");
    }
    return interpreter.recurse(stmt, around, arguments.positional[0], depth0 + 1);
  };
}

bool Loop::attribute(Interpreter& interpreter, std::string_view name, Value& result) {
  const auto size = static_cast<std::int64_t>(items_.size());
  const auto index0 = static_cast<std::int64_t>(index0_);
  if (name == "index") {
    result = Value::integer(index0 + 1);
  } else if (name == "index0") {
    result = Value::integer(index0);
  } else if (name == "first") {
    result = Value::boolean(index0 == 0);
  } else if (name == "last") {
    result = Value::boolean(index0 + 1 == size);
  } else if (name == "length") {
    result = Value::integer(size);
  } else if (name == "revindex") {
    result = Value::integer(size - index0);
  } else if (name == "revindex0") {
    result = Value::integer(size - index0 - 1);
  } else if (name == "depth") {
    result = Value::integer(depth0_ + 1);
  } else if (name == "depth0") {
    result = Value::integer(depth0_);
  } else if (name == "previtem") {
    result = index0_ > 0 ? items_[index0_ - 1] : Value::undefined("there is no previous item");
  } else if (name == "nextitem") {
    result = index0_ + 1 < items_.size() ? items_[index0_ + 1]
                                         : Value::undefined("there is no next item");
  } else if (name == "cycle") {
    result = cycle_function();
  } else if (name == "changed") {
    interpreter.keep(std::static_pointer_cast<Object>(shared_from_this()));
    result = changed_function();
  } else {
    return false;
  }
  return true;
}

const std::function<Value(Interpreter&, const Arguments&)>* Loop::callable() const {
  return recurse_ ? &recurse_ : nullptr;
}

void Loop::release() {
  last_changed_.clear();
  items_.clear();
}

namespace {

Value bound(std::string name, const Measure& measure,
            std::function<Value(Interpreter&, const Arguments&)> call) {
  auto function = std::make_shared<Callable>();
  function->name = std::move(name);
  function->measure.depth = 1;
  add_to_measure(function->measure, measure);
  function->call = std::move(call);
  return Value::callable(std::move(function));
}

}  // namespace

Value Loop::cycle_function() {
  return bound("cycle", measure_,
               [self = shared_from_this()](Interpreter&, const Arguments& arguments) {
                 const auto& values = arguments.positional;
                 if (values.empty()) type_error("no items for cycling given");
                 return values[self->index0_ % values.size()];
               });
}

Value Loop::changed_function() {
  return bound("changed", measure_,
               [self = shared_from_this()](Interpreter& interpreter, const Arguments& arguments) {
                 return Value::boolean(self->changed(interpreter, arguments.positional));
               });
}

bool Loop::changed(Interpreter& interpreter, const std::vector<Value>& values) {
  const bool same = has_last_ && values.size() == last_changed_.size() &&
                    std::equal(values.begin(), values.end(), last_changed_.begin(),
                               [&](const Value& a, const Value& b) {
                                 return equals(interpreter.budget(), a, b);
                               });
  if (same) return false;
  has_last_ = true;
  last_changed_ = values;
  return true;
}

}  // namespace sluice::jinja
