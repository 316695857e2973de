// What may follow a primary expression: attributes, items, calls, filters and tests.
#include <algorithm>
#include <utility>

#include "engine/chat/jinja/builtins.hpp"
#include "engine/chat/jinja/expression_parser.hpp"

namespace sluice::jinja {

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

}  // namespace sluice::jinja
