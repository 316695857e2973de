// The tree of a parsed template. Immutable after parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/chat/jinja/value.hpp"

namespace sluice::jinja {

/// Number of a variable name, so that a lookup compares integers.
using Symbol = std::int32_t;

class SymbolTable {
 public:
  Symbol intern(std::string_view name);
  /// -1 when the template does not use the name.
  Symbol find(std::string_view name) const;
  const std::string& name(Symbol symbol) const { return names_[static_cast<std::size_t>(symbol)]; }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, Symbol> numbers_;
};

enum class ExprKind : std::uint8_t {
  kConstant,     ///< constant
  kName,         ///< symbol
  kList,         ///< operands
  kTuple,        ///< operands
  kDict,         ///< operands: key, value, key, value...
  kNot,          ///< operands[0]
  kNegate,       ///< operands[0]
  kPlus,         ///< operands[0]
  kBinary,       ///< operands[0] op operands[1]
  kConcat,       ///< operands, joined as texts
  kAnd,          ///< operands[0], operands[1]
  kOr,           ///< operands[0], operands[1]
  kCompare,      ///< operands[0] comparisons[0] operands[1] comparisons[1] ...
  kConditional,  ///< operands: test, value, otherwise (may be null)
  kAttribute,    ///< operands[0].name
  kItem,         ///< operands[0][operands[1]]
  kSlice,        ///< operands: start, stop, step, each may be null; only inside kItem
  kCall,         ///< operands[0](operands[1]...), keywords, star, double_star
  kFilter,       ///< name, operands[0] the input, then as kCall
  kTest,         ///< name, operands[0] the input, then as kCall
  kBlockText,    ///< the text of the filter block or set block around
};

enum class BinaryOp : std::uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower
};

enum class CompareOp : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  BinaryOp op = BinaryOp::kAdd;
  int line = 0;
  int depth = 1;  ///< levels of the tree below and including this one
  Symbol symbol = -1;
  Value constant;
  std::string name;
  std::vector<CompareOp> comparisons;
  std::vector<ExprPtr> operands;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr star;
  ExprPtr double_star;
};

/// Where `set` and `for` put values.
struct Target {
  Symbol symbol = -1;  ///< a variable, or the namespace when `attribute` is set
  std::string attribute;
  std::vector<Target> parts;  ///< not empty: unpack into these
  bool is_tuple = false;
  int line = 0;
};

struct Parameter {
  Symbol symbol = -1;
  ExprPtr default_value;  ///< may be null
};

enum class StmtKind : std::uint8_t {
  kData,      ///< text
  kOutput,    ///< expr
  kIf,        ///< branches
  kFor,       ///< target in expr if condition, body, otherwise
  kSet,       ///< target = expr
  kSetBlock,  ///< target = filters (expr, may be null) of body
  kMacro,     ///< macro
  kCall,      ///< expr is a call; macro holds its caller
  kFilter,    ///< expr (a filter of kBlockText) of body
  kWith,      ///< bindings, body
  kScope,     ///< body in a scope of its own
  kBreak,
  kContinue,
};

struct Stmt;
using Block = std::vector<Stmt>;

struct Macro {
  std::string name;
  Symbol symbol = -1;
  std::vector<Parameter> parameters;
  Block body;
  bool takes_varargs = false;
  bool takes_kwargs = false;
  bool takes_caller = false;
};

struct Branch {
  ExprPtr condition;  ///< null for else
  Block body;
};

struct Stmt {
  StmtKind kind = StmtKind::kData;
  bool recursive = false;  ///< kFor
  int line = 0;
  TextPtr text;
  Target target;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<Branch> branches;
  std::vector<std::pair<Target, ExprPtr>> bindings;
  std::unique_ptr<Macro> macro;
  Block body;
  Block otherwise;
};

/// A whole template.
struct Tree {
  SymbolTable symbols;
  Block body;
};

}  // namespace sluice::jinja
