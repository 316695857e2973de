// What the expression parser and the statement parser share: the token stream and the guards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/jinja/ast.hpp"
#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/lexer.hpp"

namespace sluice::jinja {

class ParserBase {
 public:
  ParserBase(std::vector<Token> tokens, SymbolTable& symbols)
      : tokens_(std::move(tokens)), symbols_(symbols) {}

 protected:
  static constexpr int kMaxRecursion = 300;  ///< of the parser; a parenthesis takes three
  static constexpr int kMaxExprDepth = 200;  ///< levels of one expression's tree

  const Token& current() const { return tokens_[at_]; }
  const Token& next_token() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() {
    Token token = tokens_[at_];
    if (token.type != TokenType::kEnd) ++at_;
    return token;
  }
  bool skip_operator(std::string_view op) {
    if (!current().is_operator(op)) return false;
    take();
    return true;
  }
  bool skip_name(std::string_view name) {
    if (!current().is_name(name)) return false;
    take();
    return true;
  }
  void expect_operator(std::string_view op) {
    if (!skip_operator(op)) fail_expected(std::string(op));
  }
  std::string expect_name() {
    if (current().type != TokenType::kName) fail_expected("name");
    return take().text;
  }
  void expect(TokenType type) {
    if (current().type != type) fail_expected(describe({type, "", 0}));
    take();
  }

  [[noreturn]] void fail_expected(const std::string& what) const {
    fail("expected token '" + what + "', got '" + describe(current()) + "'");
  }
  [[noreturn]] void fail(const std::string& reason) const { fail(reason, current().line); }
  [[noreturn]] static void fail(const std::string& reason, int line) {
    throw SyntaxFailure(reason, line);
  }

  /// One level of the parser's own recursion.
  class Guard {
   public:
    explicit Guard(ParserBase& parser) : parser_(parser) {
      if (parser_.recursion_ >= kMaxRecursion) parser_.fail("the template is nested too deep");
      ++parser_.recursion_;
    }
    ~Guard() { --parser_.recursion_; }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    ParserBase& parser_;
  };

  SymbolTable& symbols() { return symbols_; }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int recursion_ = 0;
  SymbolTable& symbols_;
};

}  // namespace sluice::jinja
