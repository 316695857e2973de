#include "engine/chat/jinja/lexer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/string_literal.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

/// Every line end becomes "\n"; one at the end of the template is dropped.
std::string normalize_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_lines(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = find_tag();
      if (tag == std::string::npos) {
        emit_data(rest(at_));
        at_ = source_.size();
        break;
      }
      enter_tag(tag);
    }
    emit(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest(std::size_t from) const { return std::string_view(source_).substr(from); }
  bool looking_at(std::size_t at, std::string_view what) const {
    return rest(std::min(at, source_.size())).starts_with(what);
  }
  char peek(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  std::size_t find_tag() const {
    for (std::size_t at = source_.find('{', at_); at != std::string::npos;
         at = source_.find('{', at + 1)) {
      const char second = peek(at + 1);
      if (second == '%' || second == '{' || second == '#') return at;
    }
    return std::string::npos;
  }

  void enter_tag(std::size_t tag) {
    const char kind = source_[tag + 1];
    const char sign = peek(tag + 2);
    const bool has_sign = sign == '-' || sign == '+';
    emit_data_before(tag, has_sign ? sign : '\0', kind != '{');
    at_ = tag;
    const std::size_t inside = tag + 2 + (has_sign ? 1 : 0);
    if (kind == '#') {
      skip_comment(inside);
    } else if (kind == '%') {
      if (const auto raw = raw_begin_end(inside)) {
        read_raw(*raw);
        return;
      }
      advance_to(inside);
      emit(TokenType::kBlockBegin, "");
      read_tag(TokenType::kBlockEnd);
    } else {
      advance_to(inside);
      emit(TokenType::kVariableBegin, "");
      read_tag(TokenType::kVariableEnd);
    }
  }

  /// Data up to a tag, less the white space that the tag takes.
  void emit_data_before(std::size_t tag, char sign, bool takes_line_start) {
    std::string_view data = std::string_view(source_).substr(at_, tag - at_);
    const std::size_t length = data.size();
    if (sign == '-') {
      data = strip_end(data);
    } else if (sign != '+' && takes_line_start) {
      const std::size_t line_begin = data.rfind('\n') + 1;  // npos + 1 is 0
      if ((line_begin > 0 || line_starting_) && strip_end(data.substr(line_begin)).empty()) {
        data = data.substr(0, line_begin);
      }
    }
    emit_data(data);
    count_lines(at_ + data.size(), at_ + length);
  }

  static std::string_view strip_end(std::string_view text) {
    while (!text.empty()) {
      std::size_t last = text.size() - 1;
      while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0U) == 0x80U) --last;
      const CodePoint c = decode_utf8(text, last);
      if (last + c.length != text.size() || !is_space(c.value)) break;
      text = text.substr(0, last);
    }
    return text;
  }

  std::size_t skip_spaces(std::size_t at) const {
    while (at < source_.size()) {
      const CodePoint c = decode_utf8(source_, at);
      if (!is_space(c.value)) break;
      at += c.length;
    }
    return at;
  }

  /// End of "-%}", "+%}" or "%}" at `at` with the white space it takes; nothing when absent.
  std::optional<std::size_t> close_at(std::size_t at, std::string_view mark, bool trims,
                                      bool allows_plus) const {
    if (peek(at) == '-' && looking_at(at + 1, mark)) return skip_spaces(at + 1 + mark.size());
    if (allows_plus && peek(at) == '+' && looking_at(at + 1, mark)) return at + 1 + mark.size();
    if (!looking_at(at, mark)) return std::nullopt;
    const std::size_t end = at + mark.size();
    return trims && peek(end) == '\n' ? end + 1 : end;
  }

  void skip_comment(std::size_t from) {
    for (std::size_t at = from; at < source_.size(); ++at) {
      if (const auto end = close_at(at, "#}", true, true)) {
        advance_to(*end);
        line_starting_ = source_[*end - 1] == '\n';
        return;
      }
    }
    fail("Missing end of comment tag");
  }

  /// Where the content of a raw block begins, if the tag whose inside is at `at` is one.
  std::optional<std::size_t> raw_begin_end(std::size_t at) const {
    at = skip_spaces(at);
    if (!looking_at(at, "raw")) return std::nullopt;
    return close_at(skip_spaces(at + 3), "%}", false, false);
  }

  void read_raw(std::size_t content) {
    advance_to(content);
    line_starting_ = source_[content - 1] == '\n';
    for (std::size_t at = source_.find("{%", at_); at != std::string::npos;
         at = source_.find("{%", at + 1)) {
      const char sign = peek(at + 2);
      const bool has_sign = sign == '-' || sign == '+';
      const std::size_t name = skip_spaces(at + 2 + (has_sign ? 1 : 0));
      if (!looking_at(name, "endraw")) continue;
      const auto end = close_at(skip_spaces(name + 6), "%}", true, true);
      if (!end) continue;
      emit_data_before(at, has_sign ? sign : '\0', true);
      at_ = at;
      advance_to(*end);
      line_starting_ = source_[*end - 1] == '\n';
      return;
    }
    fail("Missing end of raw directive");
  }

  void read_tag(TokenType closing) {
    const bool block = closing == TokenType::kBlockEnd;
    std::string open;  // brackets that are still open: the tag cannot end inside
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const auto end = close_at(at_, block ? "%}" : "}}", block, block)) {
          emit(closing, "");
          advance_to(*end);
          line_starting_ = source_[*end - 1] == '\n';
          return;
        }
      }
      const std::size_t after_spaces = skip_spaces(at_);
      if (after_spaces != at_) {
        advance_to(after_spaces);
      } else {
        read_token(open);
      }
    }
    // The parser reports what is missing.
  }

  void read_token(std::string& open) {
    const char c = source_[at_];
    if (is_ascii_digit(c)) return read_number();
    if (c == '\'' || c == '"') return read_string(c);
    const std::size_t name_end = skip_name(at_);
    if (name_end != at_) {
      emit(TokenType::kName, source_.substr(at_, name_end - at_));
      at_ = name_end;
      return;
    }
    read_operator(open);
  }

  std::size_t skip_name(std::size_t at) const {
    while (at < source_.size()) {
      const CodePoint c = decode_utf8(source_, at);
      if (c.value != '_' && !is_alnum(c.value)) break;
      at += c.length;
    }
    return at;
  }

  /// Digits with single "_" between them.
  std::size_t skip_digits(std::size_t at) const {
    while (is_ascii_digit(peek(at)) || (peek(at) == '_' && is_ascii_digit(peek(at + 1)))) ++at;
    return at;
  }

  void read_number() {
    std::size_t end = skip_digits(at_);
    bool real = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';  // as in items.0.name
    if (!after_dot && peek(end) == '.' && is_ascii_digit(peek(end + 1))) {
      end = skip_digits(end + 1);
      real = true;
    }
    if (!after_dot && (peek(end) == 'e' || peek(end) == 'E')) {
      const std::size_t sign = peek(end + 1) == '+' || peek(end + 1) == '-' ? 1 : 0;
      if (is_ascii_digit(peek(end + 1 + sign))) {
        end = skip_digits(end + 1 + sign);
        real = true;
      }
    }
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    if (!real && digits.size() > 1 && digits.front() == '0' &&
        digits.find_first_not_of('0') != std::string::npos) {
      fail("a number may not begin with 0");
    }
    if (!real && digits == "0" && read_based_number(end)) return;
    emit(real ? TokenType::kFloat : TokenType::kInteger, digits);
    at_ = end;
  }

  /// 0x1f, 0o17, 0b101.
  bool read_based_number(std::size_t letter) {
    const char kind = static_cast<char>(peek(letter) | 0x20);
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (base == 0) return false;
    std::uint64_t number = 0;
    std::size_t end = letter + 1;
    for (;; ++end) {
      if (peek(end) == '_') continue;
      const int digit = digit_value(peek(end));
      if (digit < 0 || digit >= base) break;
      if (number > (std::uint64_t{1} << 58)) fail("a number is too large");
      number = number * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit);
    }
    if (end == letter + 1) return false;
    emit(TokenType::kInteger, std::to_string(number));
    at_ = end;
    return true;
  }

  void read_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) {
      end += source_[end] == '\\' ? std::size_t{2} : std::size_t{1};
    }
    if (end >= source_.size()) fail("a string is not closed");
    const std::string_view inside = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    std::string value;
    try {
      value = unescape_string_literal(inside);
    } catch (const Failure& failure) {
      fail(failure.what());
    }
    emit(TokenType::kString, std::move(value));
    advance_to(end + 1);
  }

  void read_operator(std::string& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view op : kOperators) {
      if (!looking_at(at_, op)) continue;
      balance(op.front(), open);
      emit(TokenType::kOperator, std::string(op));
      at_ += op.size();
      return;
    }
    const CodePoint c = decode_utf8(source_, at_);
    fail("unexpected char '" + source_.substr(at_, c.length) + "'");
  }

  void balance(char bracket, std::string& open) const {
    if (bracket == '(' || bracket == '[' || bracket == '{') {
      open += bracket == '(' ? ')' : bracket == '[' ? ']' : '}';
    } else if (bracket == ')' || bracket == ']' || bracket == '}') {
      if (open.empty()) fail(std::string("unexpected '") + bracket + "'");
      if (open.back() != bracket) {
        fail(std::string("unexpected '") + bracket + "', expected '" + open.back() + "'");
      }
      open.pop_back();
    }
  }

  static int digit_value(char c) {
    if (is_ascii_digit(c)) return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  }

  void emit(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  void emit_data(std::string_view data) {
    if (data.empty()) return;
    emit(TokenType::kData, std::string(data));
    count_lines(at_, at_ + data.size());
  }

  void advance_to(std::size_t at) {
    count_lines(at_, at);
    at_ = at;
  }

  void count_lines(std::size_t begin, std::size_t end) {
    const auto first = source_.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = source_.begin() + static_cast<std::ptrdiff_t>(end);
    line_ += static_cast<int>(std::count(first, last, '\n'));
  }

  [[noreturn]] void fail(const std::string& reason) const { throw SyntaxFailure(reason, line_); }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  ///< the last tag ended with a line break
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::kData:
      return "template data";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kString:
      return "string";
    case TokenType::kInteger:
      return "integer";
    case TokenType::kFloat:
      return "float";
    case TokenType::kEnd:
      return "end of template";
    case TokenType::kName:
    case TokenType::kOperator:
      return token.text;
  }
  return "token";
}

}  // namespace sluice::jinja
