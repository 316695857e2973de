// The object behind the variable `loop`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/jinja/interpreter.hpp"

namespace sluice::jinja {

class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  /// `stmt` and `scope` are for recursive loops.
  Loop(std::vector<Value> items, std::int64_t depth0, const Stmt& stmt,
       std::shared_ptr<Scope> scope);

  const std::vector<Value>& items() const { return items_; }
  void set_index(std::size_t index0) { index0_ = index0; }

  std::string type_name() const override { return "LoopContext"; }
  bool attribute(Interpreter& interpreter, std::string_view name, Value& result) override;
  const std::function<Value(Interpreter&, const Arguments&)>* callable() const override;
  Measure measure() const override { return measure_; }
  void release() override;

 private:
  Value cycle_function();
  Value changed_function();
  bool changed(Interpreter& interpreter, const std::vector<Value>& values);

  std::vector<Value> items_;
  std::size_t index0_ = 0;
  std::int64_t depth0_ = 0;
  bool has_last_ = false;
  std::vector<Value> last_changed_;
  Measure measure_{1, 1};
  std::function<Value(Interpreter&, const Arguments&)> recurse_;
};

}  // namespace sluice::jinja
