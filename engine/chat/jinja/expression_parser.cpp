#include "engine/chat/jinja/expression_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

namespace sluice::jinja {

ExprPtr ExpressionParser::make(ExprKind kind, int line) {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

void ExpressionParser::add(Expr& node, ExprPtr operand) const {
  if (operand != nullptr) {
    node.depth = std::max(node.depth, operand->depth + 1);
    if (node.depth > kMaxExprDepth) fail("an expression is nested too deep", node.line);
  }
  node.operands.push_back(std::move(operand));
}

ExprPtr ExpressionParser::binary(BinaryOp op, int line, ExprPtr left, ExprPtr right) const {
  ExprPtr node = make(ExprKind::kBinary, line);
  node->op = op;
  add(*node, std::move(left));
  add(*node, std::move(right));
  return node;
}

ExprPtr ExpressionParser::parse_expression() {
  const Guard guard(*this);
  return parse_conditional();
}

ExprPtr ExpressionParser::parse_conditional() {
  const Guard guard(*this);
  const int line = current().line;
  const std::size_t known_before = unknown_.size();
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ExprPtr node = make(ExprKind::kConditional, line);
    ExprPtr test = parse_or();
    ExprPtr otherwise = skip_name("else") ? parse_conditional() : nullptr;
    add(*node, std::move(test));
    add(*node, std::move(value));
    add(*node, std::move(otherwise));
    value = std::move(node);
    unknown_.erase(unknown_.begin() + static_cast<std::ptrdiff_t>(known_before), unknown_.end());
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  const int line = current().line;
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr node = make(ExprKind::kOr, line);
    add(*node, std::move(left));
    add(*node, parse_and());
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  const int line = current().line;
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr node = make(ExprKind::kAnd, line);
    add(*node, std::move(left));
    add(*node, parse_not());
    left = std::move(node);
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  const Guard guard(*this);
  if (!current().is_name("not")) return parse_compare();
  ExprPtr node = make(ExprKind::kNot, take().line);
  add(*node, parse_not());
  return node;
}

namespace {

std::optional<CompareOp> compare_op(const Token& token) {
  static constexpr std::pair<std::string_view, CompareOp> kOps[] = {
      {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
      {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual},
  };
  for (const auto& [text, op] : kOps) {
    if (token.is_operator(text)) return op;
  }
  return std::nullopt;
}

}  // namespace

ExprPtr ExpressionParser::parse_compare() {
  const int line = current().line;
  ExprPtr left = parse_sum();
  ExprPtr node;
  while (true) {
    std::optional<CompareOp> op = compare_op(current());
    if (current().is_name("in")) op = CompareOp::kIn;
    if (current().is_name("not") && next_token().is_name("in")) {
      take();
      op = CompareOp::kNotIn;
    }
    if (!op) break;
    take();
    if (node == nullptr) {
      node = make(ExprKind::kCompare, line);
      add(*node, std::move(left));
    }
    node->comparisons.push_back(*op);
    add(*node, parse_sum());
  }
  return node != nullptr ? std::move(node) : std::move(left);
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_operator("+") || current().is_operator("-")) {
    const Token op = take();
    left = binary(op.text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract, op.line, std::move(left),
                  parse_concat());
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!current().is_operator("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, current().line);
  add(*node, std::move(first));
  while (skip_operator("~")) add(*node, parse_product());
  return node;
}

ExprPtr ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, BinaryOp> kOps[] = {
      {"*", BinaryOp::kMultiply},
      {"/", BinaryOp::kDivide},
      {"//", BinaryOp::kFloorDivide},
      {"%", BinaryOp::kModulo},
  };
  ExprPtr left = parse_power();
  while (true) {
    const auto* const op = std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& entry) {
      return current().is_operator(entry.first);
    });
    if (op == std::end(kOps)) return left;
    const int line = take().line;
    left = binary(op->second, line, std::move(left), parse_power());
  }
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary(true);
  while (current().is_operator("**")) {
    const int line = take().line;
    left = binary(BinaryOp::kPower, line, std::move(left), parse_unary(true));
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const Guard guard(*this);
  ExprPtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Token sign = take();
    node = make(sign.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, sign.line);
    add(*node, parse_unary(false));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token token = current();
  if (token.type == TokenType::kName) {
    take();
    return parse_name(token);
  }
  if (token.type == TokenType::kString) {
    std::string value;
    while (current().type == TokenType::kString) value += take().text;
    ExprPtr node = make(ExprKind::kConstant, token.line);
    node->constant = Value::text(value);
    return node;
  }
  if (token.type == TokenType::kInteger || token.type == TokenType::kFloat) {
    take();
    return parse_number(token);
  }
  if (skip_operator("(")) {
    ExprPtr node = parse_tuple({.in_parentheses = true});
    expect_operator(")");
    return node;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  fail("Expected an expression, got '" + describe(token) + "'");
}

ExprPtr ExpressionParser::parse_name(const Token& token) {
  ExprPtr node = make(ExprKind::kConstant, token.line);
  if (token.text == "true" || token.text == "True") {
    node->constant = Value::boolean(true);
  } else if (token.text == "false" || token.text == "False") {
    node->constant = Value::boolean(false);
  } else if (token.text != "none" && token.text != "None") {
    node->kind = ExprKind::kName;
    node->symbol = symbols().intern(token.text);
    for (Macro* macro : macros_) {
      macro->takes_varargs |= token.text == "varargs";
      macro->takes_kwargs |= token.text == "kwargs";
      macro->takes_caller |= token.text == "caller";
    }
  }
  return node;
}

ExprPtr ExpressionParser::parse_number(const Token& token) {
  ExprPtr node = make(ExprKind::kConstant, token.line);
  if (token.type == TokenType::kFloat) {
    node->constant = Value::real(std::strtod(token.text.c_str(), nullptr));
    return node;
  }
  std::int64_t number = 0;
  const char* const end = token.text.data() + token.text.size();
  const auto result = std::from_chars(token.text.data(), end, number);
  node->constant =
      result.ec == std::errc() ? Value::integer(number) : Value::big_integer(token.text);
  return node;
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr node = make(ExprKind::kList, take().line);
  while (!current().is_operator("]")) {
    if (!node->operands.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    add(*node, parse_expression());
  }
  expect_operator("]");
  return node;
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, take().line);
  while (!current().is_operator("}")) {
    if (!node->operands.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    add(*node, parse_expression());
    expect_operator(":");
    add(*node, parse_expression());
  }
  expect_operator("}");
  return node;
}

bool ExpressionParser::tuple_ends(const TupleOptions& options) const {
  return current().type == TokenType::kVariableEnd || current().type == TokenType::kBlockEnd ||
         current().is_operator(")") ||
         (!options.end_name.empty() && current().is_name(options.end_name));
}

ExprPtr ExpressionParser::parse_tuple(const TupleOptions& options) {
  const Guard guard(*this);
  ExprPtr node = make(ExprKind::kTuple, current().line);
  bool is_tuple = false;
  while (!tuple_ends(options)) {
    add(*node, options.names_only    ? parse_primary()
               : options.conditional ? parse_expression()
                                     : parse_or());
    if (!current().is_operator(",")) break;
    is_tuple = true;
    take();
  }
  if (is_tuple) return node;
  if (!node->operands.empty()) return std::move(node->operands.front());
  if (!options.in_parentheses) fail("Expected an expression, got '" + describe(current()) + "'");
  return node;
}

Target ExpressionParser::parse_target(bool with_namespace, std::string_view end_name) {
  Target target;
  target.line = current().line;
  if (with_namespace && next_token().is_operator(".")) {
    target.symbol = symbols().intern(expect_name());
    expect_operator(".");
    target.attribute = expect_name();
    return target;
  }
  const ExprPtr expr = parse_tuple({.names_only = true, .end_name = end_name});
  return target_from(*expr);
}

Target ExpressionParser::target_from(const Expr& expr) const {
  Target target;
  target.line = expr.line;
  if (expr.kind == ExprKind::kName) {
    target.symbol = expr.symbol;
  } else if (expr.kind == ExprKind::kTuple || expr.kind == ExprKind::kList) {
    target.is_tuple = true;
    for (const ExprPtr& part : expr.operands) target.parts.push_back(target_from(*part));
  } else {
    fail("can't assign to this expression", expr.line);
  }
  return target;
}

}  // namespace sluice::jinja
