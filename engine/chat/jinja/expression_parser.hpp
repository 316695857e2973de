// Expressions, in Jinja's order of precedence.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "engine/chat/jinja/parser_base.hpp"

namespace sluice::jinja {

class ExpressionParser : public ParserBase {
 public:
  using ParserBase::ParserBase;

 protected:
  struct TupleOptions {
    bool names_only = false;         ///< only primaries, as in targets
    bool conditional = true;         ///< whether `a if b` is part of it
    bool in_parentheses = false;     ///< () is a tuple
    std::string_view end_name = {};  ///< a name that ends it, besides the end of the tag
  };

  ExprPtr parse_expression();
  ExprPtr parse_tuple(const TupleOptions& options);
  /// Filters that follow `input`; with `leading` the first one has no "|" before it.
  ExprPtr parse_filters(ExprPtr input, bool leading);
  Target parse_target(bool with_namespace, std::string_view end_name);

  /// While true an unknown filter or test is found out when it is used.
  bool soft_ = false;
  /// Unknown filters and tests whose place may still turn out to be in a conditional expression.
  std::vector<SyntaxFailure> unknown_;
  std::vector<Macro*> macros_;  ///< the macros around, outermost first

 private:
  struct Call {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> keywords;
    ExprPtr star;
    ExprPtr double_star;
  };

  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters);
  ExprPtr parse_primary();
  ExprPtr parse_name(const Token& token);
  ExprPtr parse_number(const Token& token);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_slice_or_index();
  ExprPtr parse_test(ExprPtr node);
  Call parse_call_arguments();
  static void attach_call(Expr& node, Call call);
  std::string parse_dotted_name();
  /// Notes that there is no such filter or test.
  void note_unknown(const std::string& kind, const std::string& name, int line);
  bool tuple_ends(const TupleOptions& options) const;
  Target target_from(const Expr& expr) const;

  static ExprPtr make(ExprKind kind, int line);
  /// Appends an operand and keeps track of the depth of the tree.
  void add(Expr& node, ExprPtr operand) const;
  ExprPtr binary(BinaryOp op, int line, ExprPtr left, ExprPtr right) const;
};

}  // namespace sluice::jinja
