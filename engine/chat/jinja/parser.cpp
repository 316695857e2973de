#include "engine/chat/jinja/parser.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "engine/chat/jinja/expression_parser.hpp"

namespace sluice::jinja {

Symbol SymbolTable::intern(std::string_view name) {
  const auto [entry, inserted] =
      numbers_.try_emplace(std::string(name), static_cast<Symbol>(names_.size()));
  if (inserted) names_.emplace_back(name);
  return entry->second;
}

Symbol SymbolTable::find(std::string_view name) const {
  const auto entry = numbers_.find(std::string(name));
  return entry != numbers_.end() ? entry->second : -1;
}

namespace {

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  Block run() {
    Block body;
    parse_block(body, {});
    if (current().type != TokenType::kEnd) fail("unexpected " + describe(current()));
    if (!unknown_.empty()) throw unknown_.front();
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  /// Statements until a tag with one of `ends`, of which "{%" is consumed; without `ends`, all.
  void parse_block(Block& body, Names ends) {
    const Guard guard(*this);
    while (true) {
      const Token& token = current();
      switch (token.type) {
        case TokenType::kData:
          parse_data(body);
          break;
        case TokenType::kVariableBegin:
          parse_output(body);
          break;
        case TokenType::kBlockBegin:
          take();
          if (std::any_of(ends.begin(), ends.end(),
                          [&](std::string_view end) { return current().is_name(end); })) {
            return;
          }
          body.push_back(parse_statement(ends));
          expect(TokenType::kBlockEnd);
          break;
        case TokenType::kEnd:
          if (ends.size() != 0) fail_missing_end(ends);
          return;
        default:
          fail("unexpected " + describe(token));
      }
    }
  }

  [[noreturn]] void fail_missing_end(Names ends) const {
    std::string names;
    for (const std::string_view end : ends) {
      names += (names.empty() ? "'" : " or '") + std::string(end) + "'";
    }
    fail("Unexpected end of template. Jinja was looking for " + names);
  }

  void parse_data(Block& body) {
    Stmt stmt = make(StmtKind::kData);
    Text text;
    text.bytes = take().text;
    stmt.text = std::make_shared<const Text>(std::move(text));
    body.push_back(std::move(stmt));
  }

  void parse_output(Block& body) {
    take();
    Stmt stmt = make(StmtKind::kOutput);
    stmt.expr = parse_tuple({});
    body.push_back(std::move(stmt));
    expect(TokenType::kVariableEnd);
  }

  Stmt parse_statement(Names ends) {
    if (current().type != TokenType::kName) fail("tag name expected");
    const Token name = take();
    const int line = name.line;
    if (name.text == "if") return parse_if(line);
    if (name.text == "for") return parse_for(line);
    if (name.text == "set") return parse_set(line);
    if (name.text == "macro") return parse_macro(line);
    if (name.text == "call") return parse_call(line);
    if (name.text == "filter") return parse_filter_block(line);
    if (name.text == "with") return parse_with(line);
    if (name.text == "generation") return parse_generation(line);
    if (name.text == "break" || name.text == "continue") return parse_jump(name);
    for (const std::string_view known : {"block", "extends", "include", "import", "from", "do"}) {
      if (name.text == known)
        fail("the tag '" + name.text + "' is not supported in chat templates", line);
    }
    std::string reason = "Encountered unknown tag '" + name.text + "'.";
    if (ends.size() != 0) {
      reason += " Jinja was looking for the following tags:";
      for (const std::string_view end : ends) reason += " '" + std::string(end) + "'";
    }
    fail(reason, line);
  }

  Stmt make(StmtKind kind) const { return make(kind, current().line); }
  static Stmt make(StmtKind kind, int line) {
    Stmt stmt;
    stmt.kind = kind;
    stmt.line = line;
    return stmt;
  }

  /// The rest of a tag, a body, and the name of the tag that ends it (consumed).
  std::string parse_body(Block& body, Names ends) {
    expect(TokenType::kBlockEnd);
    parse_block(body, ends);
    return take().text;
  }

  /// Something with a scope or function of its own: what it sets does not leak.
  class Inner {
   public:
    Inner(Parser& parser, bool is_function)
        : parser_(parser), soft_(parser.soft_), loops_(parser.loops_) {
      parser_.soft_ = false;
      if (is_function) parser_.loops_ = 0;
    }
    ~Inner() {
      parser_.soft_ = soft_;
      parser_.loops_ = loops_;
    }
    Inner(const Inner&) = delete;
    Inner& operator=(const Inner&) = delete;

   private:
    Parser& parser_;
    bool soft_;
    int loops_;
  };

  Stmt parse_if(int line) {
    Stmt stmt = make(StmtKind::kIf, line);
    const bool outer_soft = std::exchange(soft_, true);
    std::string end;
    do {
      Branch& branch = stmt.branches.emplace_back();
      branch.condition = parse_tuple({.conditional = false});
      end = parse_body(branch.body, {"elif", "else", "endif"});
    } while (end == "elif");
    if (end == "else") parse_body(stmt.branches.emplace_back().body, {"endif"});
    soft_ = outer_soft;
    return stmt;
  }

  Stmt parse_for(int line) {
    Stmt stmt = make(StmtKind::kFor, line);
    stmt.target = parse_target(false, "in");
    if (!skip_name("in")) fail_expected("in");
    stmt.expr = parse_tuple({.conditional = false, .end_name = "recursive"});
    const Inner inner(*this, false);
    if (skip_name("if")) stmt.condition = parse_expression();
    stmt.recursive = skip_name("recursive");
    ++loops_;
    const std::string end = parse_body(stmt.body, {"endfor", "else"});
    --loops_;
    if (end == "else") parse_body(stmt.otherwise, {"endfor"});
    return stmt;
  }

  Stmt parse_set(int line) {
    Stmt stmt = make(StmtKind::kSet, line);
    stmt.target = parse_target(true, {});
    if (skip_operator("=")) {
      stmt.expr = parse_tuple({});
      return stmt;
    }
    stmt.kind = StmtKind::kSetBlock;
    const Inner inner(*this, false);
    if (current().is_operator("|")) {
      stmt.expr = parse_filters(block_text(line), false);
    }
    parse_body(stmt.body, {"endset"});
    return stmt;
  }

  static ExprPtr block_text(int line) {
    auto node = std::make_unique<Expr>();
    node->kind = ExprKind::kBlockText;
    node->line = line;
    return node;
  }

  void parse_parameters(Macro& macro) {
    expect_operator("(");
    while (!current().is_operator(")")) {
      if (!macro.parameters.empty()) expect_operator(",");
      Parameter& parameter = macro.parameters.emplace_back();
      parameter.symbol = symbols().intern(expect_name());
      if (skip_operator("=")) {
        parameter.default_value = parse_expression();
      } else if (macro.parameters.size() > 1 &&
                 macro.parameters[macro.parameters.size() - 2].default_value != nullptr) {
        fail("non-default argument follows default argument");
      }
    }
    expect_operator(")");
  }

  void parse_macro_body(Macro& macro, Names end) {
    macros_.push_back(&macro);
    parse_body(macro.body, end);
    macros_.pop_back();
  }

  Stmt parse_macro(int line) {
    Stmt stmt = make(StmtKind::kMacro, line);
    stmt.macro = std::make_unique<Macro>();
    stmt.macro->name = expect_name();
    stmt.macro->symbol = symbols().intern(stmt.macro->name);
    const Inner inner(*this, true);
    parse_parameters(*stmt.macro);
    parse_macro_body(*stmt.macro, {"endmacro"});
    return stmt;
  }

  Stmt parse_call(int line) {
    Stmt stmt = make(StmtKind::kCall, line);
    stmt.macro = std::make_unique<Macro>();
    stmt.macro->name = "caller";
    if (current().is_operator("(")) parse_parameters(*stmt.macro);
    stmt.expr = parse_expression();
    if (stmt.expr->kind != ExprKind::kCall) fail("expected call", line);
    const Inner inner(*this, true);
    parse_macro_body(*stmt.macro, {"endcall"});
    return stmt;
  }

  Stmt parse_filter_block(int line) {
    Stmt stmt = make(StmtKind::kFilter, line);
    stmt.expr = parse_filters(block_text(line), true);
    const Inner inner(*this, false);
    parse_body(stmt.body, {"endfilter"});
    return stmt;
  }

  Stmt parse_with(int line) {
    Stmt stmt = make(StmtKind::kWith, line);
    while (current().type != TokenType::kBlockEnd) {
      if (!stmt.bindings.empty()) expect_operator(",");
      Target target = parse_target(false, {});
      expect_operator("=");
      ExprPtr value = parse_expression();
      stmt.bindings.emplace_back(std::move(target), std::move(value));
    }
    const Inner inner(*this, false);
    parse_body(stmt.body, {"endwith"});
    return stmt;
  }

  /// {% generation %}: marks what the assistant wrote, for training. Here: a scope.
  Stmt parse_generation(int line) {
    Stmt stmt = make(StmtKind::kScope, line);
    const Inner inner(*this, true);
    parse_body(stmt.body, {"endgeneration"});
    return stmt;
  }

  Stmt parse_jump(const Token& name) const {
    if (loops_ == 0) fail("'" + name.text + "' outside loop", name.line);
    return make(name.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, name.line);
  }

  int loops_ = 0;  ///< loops around, inside the same function
};

}  // namespace

Tree parse_template(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    throw SyntaxFailure(
        "the template is longer than " + std::to_string(kMaxTemplateBytes >> 20) + " MiB", 1);
  }
  Tree tree;
  tree.body = Parser(tokenize(source), tree.symbols).run();
  return tree;
}

}  // namespace sluice::jinja
