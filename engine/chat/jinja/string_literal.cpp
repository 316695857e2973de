#include "engine/chat/jinja/string_literal.hpp"

#include <cstddef>

#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

class Unescaper {
 public:
  explicit Unescaper(std::string_view inside) : inside_(inside) {}

  std::string run() {
    while (at_ < inside_.size()) {
      const char c = inside_[at_++];
      if (c != '\\' || at_ >= inside_.size()) {
        out_ += c;
      } else {
        escape(inside_[at_++]);
      }
    }
    return std::move(out_);
  }

 private:
  void escape(char kind) {
    switch (kind) {
      case '\n':
        return;  // a line goes on
      case '\\':
      case '\'':
      case '"':
        out_ += kind;
        return;
      case 'a':
        out_ += '\a';
        return;
      case 'b':
        out_ += '\b';
        return;
      case 'f':
        out_ += '\f';
        return;
      case 'n':
        out_ += '\n';
        return;
      case 'r':
        out_ += '\r';
        return;
      case 't':
        out_ += '\t';
        return;
      case 'v':
        out_ += '\v';
        return;
      case 'x':
        append(hex(2));
        return;
      case 'u':
        append(hex(4));
        return;
      case 'U':
        append(hex(8));
        return;
      case 'N':
        throw Failure(FailureKind::kSyntax, "character names in strings are not supported");
      default:
        break;
    }
    if (kind >= '0' && kind <= '7') {
      append(octal(kind));
    } else {
      out_ += '\\';
      out_ += kind;
    }
  }

  char32_t hex(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const int digit = at_ < inside_.size() ? hex_value(inside_[at_]) : -1;
      if (digit < 0) throw Failure(FailureKind::kSyntax, "an escape in a string is not complete");
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (value > 0x10FFFF) throw Failure(FailureKind::kSyntax, "an escape in a string is too large");
    return value;
  }

  char32_t octal(char first) {
    auto value = static_cast<char32_t>(first - '0');
    for (int i = 0; i < 2 && at_ < inside_.size() && inside_[at_] >= '0' && inside_[at_] <= '7';
         ++i) {
      value = value * 8 + static_cast<char32_t>(inside_[at_++] - '0');
    }
    return value;
  }

  void append(char32_t c) {
    char bytes[4];
    out_.append(bytes, encode_utf8(c >= 0xD800 && c <= 0xDFFF ? 0xFFFD : c, bytes));
  }

  std::string_view inside_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string unescape_string_literal(std::string_view inside) {
  return Unescaper(inside).run();
}

}  // namespace sluice::jinja
