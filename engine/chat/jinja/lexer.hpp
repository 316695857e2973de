// Template text to tokens, with the white-space rules that chat templates count on: block tags
// take the white space before them on their line and the line break after them (lstrip_blocks and
// trim_blocks), "-" takes all white space on its side, "+" takes none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sluice::jinja {

enum class TokenType {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  std::string text;  ///< data, name, operator, digits without "_", or the string's value
  int line = 1;

  bool is_operator(std::string_view op) const { return type == TokenType::kOperator && text == op; }
  bool is_name(std::string_view name) const { return type == TokenType::kName && text == name; }
};

/// All tokens; the last one is kEnd. Throws SyntaxFailure.
std::vector<Token> tokenize(std::string_view source);

/// How a token is called in messages.
std::string describe(const Token& token);

}  // namespace sluice::jinja
