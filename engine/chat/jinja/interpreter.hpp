// Walks a template's tree and writes text.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/chat/jinja/ast.hpp"
#include "engine/chat/jinja/template.hpp"

namespace sluice::jinja {

/// Variables of one block. The outermost one is dense: a place for every symbol.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}
  explicit Scope(std::size_t num_symbols) : dense_(num_symbols) {}

  /// Null when neither this scope nor one around it has the variable.
  const Value* find(Symbol symbol) const;
  void set(Symbol symbol, Value value);
  void clear();

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<Symbol, Value>> variables_;
  std::vector<std::optional<Value>> dense_;
};

/// One rendering. Builtins get it to reach the budget and to call back.
class Interpreter {
 public:
  Interpreter(const Tree& tree, const RenderOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  Text render(const Value& context);
  /// Of what is being looked at: where a failure belongs.
  int line() const { return line_; }

  Budget& budget() { return budget_; }
  const RenderOptions& options() const { return options_; }

  Value call(const Value& callee, const Arguments& arguments);
  /// Throw Failure(kRuntime) for names that do not exist.
  Value call_filter(std::string_view name, const Value& input, const Arguments& arguments);
  bool call_test(std::string_view name, const Value& input, const Arguments& arguments);
  /// Counts the work of hashing a dict key.
  void charge_key(const Value& key);

  /// Things that can come to hold themselves are emptied when the rendering ends.
  void keep(std::shared_ptr<Namespace> object) { namespaces_.push_back(std::move(object)); }
  void keep(std::shared_ptr<Object> object) { objects_.push_back(std::move(object)); }
  void keep(const Value& container) { containers_.push_back(container); }

  /// Runs the loop of `stmt` again over other items: what calling `loop` does.
  Value recurse(const Stmt& stmt, const std::shared_ptr<Scope>& scope, const Value& items,
                std::int64_t depth0);

 private:
  enum class Flow : std::uint8_t { kNormal, kBreak, kContinue };

  // statements.cpp
  Flow run(const Block& block);
  Flow run(const Stmt& stmt);
  Flow run_if(const Stmt& stmt);
  Flow run_for(const Stmt& stmt, const Value& items, std::int64_t depth0);
  std::vector<Value> filter_items(const Stmt& stmt, std::vector<Value> items);
  void run_set_block(const Stmt& stmt, Flow& flow);
  void run_call(const Stmt& stmt);
  Flow run_with(const Stmt& stmt);
  /// Runs `block` in a scope of its own and gives back what it wrote.
  TextPtr capture(const Block& block, Flow& flow);
  void assign(const Target& target, const Value& value);
  Value make_macro(const Macro& macro);
  Value invoke(const Macro& macro, const std::shared_ptr<Scope>& closure,
               const Arguments& arguments);
  void bind_parameters(const Macro& macro, const Arguments& arguments);

  // evaluate.cpp
  Value evaluate(const Expr& expr);
  Value evaluate_operation(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_sequence(const Expr& expr, SequenceType type);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_item(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller);
  Value evaluate_filter(const Expr& expr);
  Value evaluate_test(const Expr& expr);
  Arguments evaluate_arguments(const Expr& expr);

  /// Enters another scope while it lives.
  class Enter {
   public:
    Enter(Interpreter& interpreter, std::shared_ptr<Scope> scope)
        : interpreter_(interpreter), outer_(std::exchange(interpreter.scope_, std::move(scope))) {}
    ~Enter() { interpreter_.scope_ = std::move(outer_); }
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;

   private:
    Interpreter& interpreter_;
    std::shared_ptr<Scope> outer_;
  };
  std::shared_ptr<Scope> new_scope();

  const Tree& tree_;
  RenderOptions options_;
  Budget budget_;
  int line_ = 1;
  Symbol loop_symbol_ = -1;  ///< -1 when no template code says `loop`
  Symbol varargs_symbol_ = -1;
  Symbol kwargs_symbol_ = -1;
  Symbol caller_symbol_ = -1;
  TextBuilder* out_ = nullptr;
  const Value* block_text_ = nullptr;  ///< see ExprKind::kBlockText
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> closures_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Object>> objects_;
  std::vector<Value> containers_;
};

}  // namespace sluice::jinja
