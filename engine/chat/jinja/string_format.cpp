#include "engine/chat/jinja/string_format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/chat/jinja/access.hpp"
#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/format_spec.hpp"
#include "engine/chat/jinja/interpreter.hpp"
#include "engine/chat/jinja/python_format.hpp"

namespace sluice::jinja {

namespace {

bool is_digit_char(char c) {
  return c >= '0' && c <= '9';
}

/// "%-5.2f" and friends.
class PercentFormatter {
 public:
  PercentFormatter(Interpreter& interpreter, const Text& text, const Value& arguments)
      : interpreter_(interpreter), text_(text), bytes_(text.bytes), arguments_(arguments) {}

  TextPtr run() {
    TextBuilder out(interpreter_.budget());
    while (at_ < bytes_.size()) {
      const std::size_t percent = std::min(bytes_.find('%', at_), bytes_.size());
      out.append(text_, at_, percent);
      at_ = percent;
      if (at_ < bytes_.size()) directive(out);
    }
    const bool takes_all = arguments_.is_sequence(SequenceType::kTuple);
    const std::size_t given = takes_all ? arguments_.items().size() : 1;
    // Python takes everything with items for a mapping, which need not be used up.
    const bool mapping = arguments_.is_dict() || arguments_.is_undefined() ||
                         arguments_.is_sequence(SequenceType::kList) ||
                         arguments_.is_sequence(SequenceType::kRange);
    if (!mapping && used_ < given) {
      type_error("not all arguments converted during string formatting");
    }
    return out.take_shared();
  }

 private:
  char take() {
    if (at_ >= bytes_.size()) value_error("incomplete format");
    return bytes_[at_++];
  }
  char peek() const { return at_ < bytes_.size() ? bytes_[at_] : '\0'; }

  void directive(TextBuilder& out) {
    ++at_;
    std::optional<Value> named;
    if (peek() == '(') named = named_argument();
    FormatSpec spec;
    spec.align = '>';
    read_flags(spec);
    spec.width = read_size(spec);
    if (peek() == '.') {
      ++at_;
      spec.precision = std::max<std::int64_t>(read_size(spec), 0);
    }
    const char type = take();
    if (type == '%') {
      out.append("%");
      return;
    }
    convert(out, spec, type, named ? *named : next_argument());
  }

  Value named_argument() {
    const std::size_t close = bytes_.find(')', at_);
    if (close == std::string_view::npos) value_error("incomplete format key");
    const std::string_view key = bytes_.substr(at_ + 1, close - at_ - 1);
    at_ = close + 1;
    if (!arguments_.is_dict()) type_error("format requires a mapping");
    const Value* value = arguments_.as_dict().find(key);
    if (value == nullptr) value_error("there is no " + quoted(key) + " to format");
    return *value;
  }

  void read_flags(FormatSpec& spec) {
    for (;; ++at_) {
      switch (peek()) {
        case '-':
          spec.align = '<';
          break;
        case '+':
          spec.sign = '+';
          break;
        case ' ':
          spec.sign = spec.sign == '+' ? '+' : ' ';
          break;
        case '#':
          spec.alternate = true;
          break;
        case '0':
          if (spec.align == '>') spec.align = '=';
          spec.fill = "0";
          break;
        default:
          if (spec.align == '<') spec.fill = " ";
          return;
      }
    }
  }

  std::int64_t read_size(FormatSpec& spec) {
    if (peek() == '*') {
      ++at_;
      const Value value = next_argument();
      if (!value.is_integral()) type_error("* wants int");
      if (value.as_int() < 0) spec.align = '<';
      const std::int64_t size = std::clamp<std::int64_t>(value.as_int(), -1000001, 1000001);
      if (std::abs(size) > 1'000'000) value_error("a width in the format is too large");
      return std::abs(size);
    }
    std::int64_t size = 0;
    while (is_digit_char(peek())) {
      size = size * 10 + (take() - '0');
      if (size > 1'000'000) value_error("a width in the format is too large");
    }
    return size;
  }

  Value next_argument() {
    if (arguments_.is_sequence(SequenceType::kTuple)) {
      if (used_ >= arguments_.items().size()) type_error("not enough arguments for format string");
      return arguments_.items()[used_++];
    }
    if (used_ != 0) type_error("not enough arguments for format string");
    ++used_;
    return arguments_;
  }

  void convert(TextBuilder& out, FormatSpec spec, char type, const Value& value) {
    Budget& budget = interpreter_.budget();
    if (type == 's' || type == 'r') {
      spec.fill = " ";
      if (spec.align == '=') spec.align = '>';
      TextBuilder text(budget);
      if (type == 's') {
        append_str(text, budget, value);
      } else {
        append_repr(text, budget, value);
      }
      out.append(*format_with(budget, Value::text(text.take_shared()), spec));
      return;
    }
    static constexpr std::string_view kIntegers = "diuxXo";
    static constexpr std::string_view kReals = "eEfFgG";
    const bool integer = kIntegers.find(type) != std::string_view::npos;
    if (!integer && kReals.find(type) == std::string_view::npos) {
      value_error(std::string("unsupported format character '") + type + "'");
    }
    if (!value.is_number()) {
      type_error(std::string("%") + type + " format: a real number is required, not " +
                 value.type_name());
    }
    spec.type = integer && type != 'x' && type != 'X' && type != 'o' ? 'd' : type;
    Value number = value;
    if (integer) {
      spec.precision = -1;
      if (value.is_float()) {
        if (!(std::abs(value.as_double()) < 9e18)) value_error("cannot convert float to integer");
        number = Value::integer(static_cast<std::int64_t>(value.as_double()));
      }
    } else {
      number = Value::real(value.as_double());
    }
    out.append(*format_with(budget, number, spec));
  }

  Interpreter& interpreter_;
  const Text& text_;
  std::string_view bytes_;
  const Value& arguments_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

/// "{0.name!r:>8}" and friends.
class BraceFormatter {
 public:
  BraceFormatter(Interpreter& interpreter, const Arguments& arguments)
      : interpreter_(interpreter), arguments_(arguments) {}

  TextPtr run(const Text& text, int depth) {
    if (depth > 1) value_error("Max string recursion exceeded");
    const std::string_view bytes = text.bytes;
    TextBuilder out(interpreter_.budget());
    std::size_t at = 0;
    while (at < bytes.size()) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(text, at, brace);
      if (brace == bytes.size()) break;
      const char c = bytes[brace];
      if (brace + 1 < bytes.size() && bytes[brace + 1] == c) {
        out.append(text, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (c == '}') value_error("Single '}' encountered in format string");
      const std::size_t close = matching_brace(bytes, brace);
      out.append(*field(text, brace + 1, close, depth));
      at = close + 1;
    }
    return out.take_shared();
  }

 private:
  static std::size_t matching_brace(std::string_view bytes, std::size_t open) {
    int depth = 0;
    for (std::size_t at = open; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++depth;
      if (bytes[at] == '}' && --depth == 0) return at;
    }
    value_error("expected '}' before end of string");
  }

  TextPtr field(const Text& text, std::size_t begin, std::size_t end, int depth) {
    const std::string_view field = std::string_view(text.bytes).substr(begin, end - begin);
    const std::size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = lookup(field.substr(0, name_end));
    std::size_t at = name_end;
    if (at < field.size() && field[at] == '!') {
      const char conversion = at + 1 < field.size() ? field[at + 1] : '\0';
      value = convert(value, conversion);
      at += 2;
      if (at < field.size() && field[at] != ':')
        value_error("expected ':' after conversion specifier");
    }
    Text spec;
    if (at < field.size()) spec.bytes = field.substr(at + 1);
    if (spec.bytes.find('{') != std::string::npos) spec.bytes = run(spec, depth + 1)->bytes;
    return format_value(interpreter_, value, spec.bytes);
  }

  Value convert(const Value& value, char conversion) {
    TextBuilder out(interpreter_.budget());
    if (conversion == 'r' || conversion == 'a') {
      append_repr(out, interpreter_.budget(), value);
    } else if (conversion == 's') {
      append_str(out, interpreter_.budget(), value);
    } else {
      value_error("Unknown conversion specifier in format string");
    }
    return Value::text(out.take_shared());
  }

  Value lookup(std::string_view path) {
    const std::size_t head_end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, head_end));
    std::size_t at = head_end;
    while (at < path.size()) {
      if (path[at] == '.') {
        const std::size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        value = get_attribute(interpreter_, value, path.substr(at + 1, end - at - 1));
        at = end;
      } else if (path[at] == '[') {
        const std::size_t close = path.find(']', at);
        if (close == std::string_view::npos) value_error("Missing ']' in format string");
        value = get_item(interpreter_, value, key(path.substr(at + 1, close - at - 1)));
        at = close + 1;
      } else {
        value_error("Only '.' or '[' may follow ']' in format field specifier");
      }
    }
    return value;
  }

  static std::optional<std::int64_t> as_number(std::string_view text) {
    std::int64_t number = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = result.ec == std::errc() && result.ptr == text.data() + text.size();
    return whole && is_digit_char(text.front()) ? std::optional(number) : std::nullopt;
  }

  static Value key(std::string_view text) {
    const auto number = as_number(text);
    return number ? Value::integer(*number) : Value::text(text);
  }

  Value argument(std::string_view name) {
    std::size_t index = 0;
    if (name.empty()) {
      if (manual_)
        value_error("cannot switch from manual field specification to automatic field numbering");
      automatic_ = true;
      index = next_++;
    } else if (const auto number = as_number(name)) {
      if (automatic_)
        value_error("cannot switch from automatic field numbering to manual field specification");
      manual_ = true;
      index = static_cast<std::size_t>(*number);
    } else {
      for (const auto& [keyword, value] : arguments_.keywords) {
        if (keyword == name) return value;
      }
      value_error("there is no argument " + quoted(name) + " to format");
    }
    if (index >= arguments_.positional.size()) {
      value_error("Replacement index " + std::to_string(index) +
                  " out of range for positional args tuple");
    }
    return arguments_.positional[index];
  }

  Interpreter& interpreter_;
  const Arguments& arguments_;
  std::size_t next_ = 0;
  bool automatic_ = false;
  bool manual_ = false;
};

}  // namespace

TextPtr format_percent(Interpreter& interpreter, const Text& text, const Value& arguments) {
  return PercentFormatter(interpreter, text, arguments).run();
}

TextPtr format_braces(Interpreter& interpreter, const Text& text, const Arguments& arguments) {
  return BraceFormatter(interpreter, arguments).run(text, 0);
}

TextPtr format_value(Interpreter& interpreter, const Value& value, std::string_view spec) {
  if (spec.empty()) return to_text(interpreter.budget(), value);
  if (!value.is_text() && !value.is_number()) {
    type_error("unsupported format string passed to " + value.type_name() + ".__format__");
  }
  return format_with(interpreter.budget(), value, parse_format_spec(spec));
}

}  // namespace sluice::jinja
