#include "engine/chat/jinja/expression_parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "engine/chat/jinja/builtins.hpp"

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

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (current().is_operator(".") || current().is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (current().is_operator("(")) {
      ExprPtr call = make(ExprKind::kCall, current().line);
      add(*call, std::move(node));
      attach_call(*call, parse_call_arguments());
      node = std::move(call);
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr node) {
  while (true) {
    if (current().is_operator("|")) {
      node = parse_filters(std::move(node), false);
    } else if (current().is_name("is")) {
      node = parse_test(std::move(node));
    } else if (current().is_operator("(")) {
      node = parse_postfix(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr node) {
  const Token token = take();
  if (token.text == ".") {
    const Token attribute = take();
    if (attribute.type == TokenType::kName) {
      ExprPtr result = make(ExprKind::kAttribute, token.line);
      result->name = attribute.text;
      add(*result, std::move(node));
      return result;
    }
    if (attribute.type != TokenType::kInteger) fail("expected name or number", attribute.line);
    ExprPtr result = make(ExprKind::kItem, token.line);
    add(*result, std::move(node));
    add(*result, parse_number(attribute));
    return result;
  }
  std::vector<ExprPtr> indices;
  while (!current().is_operator("]")) {
    if (!indices.empty()) expect_operator(",");
    indices.push_back(parse_slice_or_index());
  }
  expect_operator("]");
  ExprPtr result = make(ExprKind::kItem, token.line);
  add(*result, std::move(node));
  if (indices.size() == 1) {
    add(*result, std::move(indices.front()));
    return result;
  }
  ExprPtr tuple = make(ExprKind::kTuple, token.line);
  for (ExprPtr& index : indices) {
    if (index->kind == ExprKind::kSlice) fail("a slice must stand alone", token.line);
    add(*tuple, std::move(index));
  }
  add(*result, std::move(tuple));
  return result;
}

ExprPtr ExpressionParser::parse_slice_or_index() {
  const int line = current().line;
  const auto part_follows = [this] {
    return !current().is_operator(":") && !current().is_operator("]") &&
           !current().is_operator(",");
  };
  ExprPtr start;
  if (!current().is_operator(":")) {
    start = parse_expression();
    if (!current().is_operator(":")) return start;
  }
  take();
  ExprPtr node = make(ExprKind::kSlice, line);
  ExprPtr stop = part_follows() ? parse_expression() : nullptr;
  ExprPtr step = skip_operator(":") && part_follows() ? parse_expression() : nullptr;
  add(*node, std::move(start));
  add(*node, std::move(stop));
  add(*node, std::move(step));
  return node;
}

ExpressionParser::Call ExpressionParser::parse_call_arguments() {
  const Guard guard(*this);
  Call call;
  expect_operator("(");
  bool first = true;
  while (!current().is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (current().is_operator(")")) break;
    }
    first = false;
    const bool named = current().type == TokenType::kName && next_token().is_operator("=");
    if (skip_operator("*")) {
      if (call.star != nullptr || call.double_star != nullptr) fail("invalid function call");
      call.star = parse_expression();
    } else if (skip_operator("**")) {
      if (call.double_star != nullptr) fail("invalid function call");
      call.double_star = parse_expression();
    } else if (named && call.double_star == nullptr) {
      std::string name = take().text;
      take();
      call.keywords.emplace_back(std::move(name), parse_expression());
    } else {
      if (!call.keywords.empty() || call.star != nullptr || call.double_star != nullptr) {
        fail("invalid function call: a value after a named argument");
      }
      call.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return call;
}

void ExpressionParser::attach_call(Expr& node, Call call) {
  for (ExprPtr& argument : call.positional) {
    node.depth = std::max(node.depth, argument->depth + 1);
    node.operands.push_back(std::move(argument));
  }
  for (auto& [name, argument] : call.keywords)
    node.depth = std::max(node.depth, argument->depth + 1);
  for (const ExprPtr* extra : {&call.star, &call.double_star}) {
    if (*extra != nullptr) node.depth = std::max(node.depth, (*extra)->depth + 1);
  }
  node.keywords = std::move(call.keywords);
  node.star = std::move(call.star);
  node.double_star = std::move(call.double_star);
  if (node.depth > kMaxExprDepth) fail("an expression is nested too deep", node.line);
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_operator(".")) name += "." + expect_name();
  return name;
}

void ExpressionParser::note_unknown(const std::string& kind, const std::string& name, int line) {
  if (!soft_) unknown_.emplace_back("No " + kind + " named '" + name + "'.", line);
}

ExprPtr ExpressionParser::parse_filters(ExprPtr input, bool leading) {
  while (current().is_operator("|") || leading) {
    if (!leading) take();
    leading = false;
    ExprPtr node = make(ExprKind::kFilter, current().line);
    node->name = parse_dotted_name();
    if (!filter_exists(node->name, false)) note_unknown("filter", node->name, node->line);
    add(*node, std::move(input));
    if (current().is_operator("(")) attach_call(*node, parse_call_arguments());
    input = std::move(node);
  }
  return input;
}

ExprPtr ExpressionParser::parse_test(ExprPtr input) {
  const int line = take().line;
  const bool negated = skip_name("not");
  ExprPtr node = make(ExprKind::kTest, line);
  node->name = parse_dotted_name();
  if (!test_exists(node->name)) note_unknown("test", node->name, line);
  add(*node, std::move(input));
  const Token& token = current();
  const bool value_follows = token.type == TokenType::kName || token.type == TokenType::kString ||
                             token.type == TokenType::kInteger || token.type == TokenType::kFloat ||
                             token.is_operator("[") || token.is_operator("{");
  if (token.is_operator("(")) {
    attach_call(*node, parse_call_arguments());
  } else if (value_follows && !token.is_name("else") && !token.is_name("or") &&
             !token.is_name("and")) {
    if (token.is_name("is")) fail("You cannot chain multiple tests with is");
    add(*node, parse_postfix(parse_primary()));
  }
  if (!negated) return node;
  ExprPtr result = make(ExprKind::kNot, line);
  add(*result, std::move(node));
  return result;
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
