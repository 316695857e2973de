#include "engine/chat/jinja/format_spec.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/python_format.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

constexpr std::int64_t kMaxWidth = 1'000'000;
constexpr std::int64_t kMaxPrecision = 400;

class SpecParser {
 public:
  explicit SpecParser(std::string_view spec) : spec_(spec) {}

  FormatSpec run() {
    FormatSpec result;
    read_alignment(result);
    if (peek() == '+' || peek() == '-' || peek() == ' ') result.sign = take();
    if (peek() == '#') result.alternate = take() != '\0';
    if (peek() == '0') {
      take();
      if (result.align == '\0') {
        result.fill = "0";
        result.align = '=';
      }
    }
    result.width = number(0, kMaxWidth);
    if (peek() == ',' || peek() == '_') result.comma = take() == ',';
    if (peek() == '.') {
      take();
      result.precision = number(-1, kMaxWidth);
      if (result.precision < 0) value_error("Format specifier missing precision");
    }
    if (at_ < spec_.size()) result.type = take();
    if (at_ < spec_.size()) value_error("Invalid format specifier");
    return result;
  }

 private:
  static bool is_alignment(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < spec_.size() ? spec_[at_ + ahead] : '\0';
  }
  char take() { return spec_[at_++]; }

  void read_alignment(FormatSpec& result) {
    if (spec_.empty()) return;
    const std::size_t fill = decode_utf8(spec_, 0).length;
    if (is_alignment(peek(fill))) {
      result.fill = spec_.substr(0, fill);
      at_ = fill;
      result.align = take();
    } else if (is_alignment(peek())) {
      result.align = take();
    }
  }

  std::int64_t number(std::int64_t otherwise, std::int64_t limit) {
    if (peek() < '0' || peek() > '9') return otherwise;
    std::int64_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + (take() - '0');
      if (value > limit) value_error("a number in the format specifier is too large");
    }
    return value;
  }

  std::string_view spec_;
  std::size_t at_ = 0;
};

std::string with_commas(const std::string& digits) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string digits_in_base(std::uint64_t number, unsigned base, bool upper) {
  const char* const alphabet = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  do {
    digits += alphabet[number % base];
    number /= base;
  } while (number != 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

struct NumberText {
  std::string prefix;  ///< sign and base mark
  std::string digits;
};

NumberText integer_text(std::int64_t number, const FormatSpec& spec) {
  NumberText text;
  const bool negative = number < 0;
  const std::uint64_t size =
      negative ? ~static_cast<std::uint64_t>(number) + 1 : static_cast<std::uint64_t>(number);
  switch (spec.type) {
    case 'x':
    case 'X':
      text.digits = digits_in_base(size, 16, spec.type == 'X');
      break;
    case 'o':
      text.digits = digits_in_base(size, 8, false);
      break;
    case 'b':
      text.digits = digits_in_base(size, 2, false);
      break;
    default:
      text.digits = digits_in_base(size, 10, false);
  }
  if (spec.comma) text.digits = with_commas(text.digits);
  if (negative) {
    text.prefix = "-";
  } else if (spec.sign != '-') {
    text.prefix = spec.sign;
  }
  const bool based = spec.type == 'x' || spec.type == 'X' || spec.type == 'o' || spec.type == 'b';
  if (spec.alternate && based) text.prefix += std::string("0") + spec.type;
  return text;
}

/// As printf would with this type and precision.
std::string print_real(double number, char type, std::int64_t precision) {
  if (precision > kMaxPrecision) value_error("a precision in the format specifier is too large");
  const char lower_type = static_cast<char>(type | 0x20);
  const std::chars_format format = lower_type == 'e'   ? std::chars_format::scientific
                                   : lower_type == 'g' ? std::chars_format::general
                                                       : std::chars_format::fixed;
  std::vector<char> buffer(800);
  const char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                        format, static_cast<int>(precision))
                              .ptr;
  std::string digits(static_cast<const char*>(buffer.data()), end);
  if (type != lower_type) std::replace(digits.begin(), digits.end(), 'e', 'E');
  return digits;
}

NumberText real_text(double number, const FormatSpec& spec) {
  NumberText text;
  if (std::signbit(number) && !std::isnan(number)) {
    text.prefix = "-";
  } else if (spec.sign != '-') {
    text.prefix = spec.sign;
  }
  const double size = std::abs(number);
  const bool percent = spec.type == '%';
  if (!std::isfinite(size)) {
    text.digits = std::isnan(size) ? "nan" : "inf";
  } else if (spec.type == '\0' && spec.precision < 0) {
    text.digits = format_real(size);
  } else {
    const char type = percent ? 'f' : spec.type == '\0' || spec.type == 'n' ? 'g' : spec.type;
    text.digits =
        print_real(percent ? size * 100 : size, type, spec.precision < 0 ? 6 : spec.precision);
  }
  if (spec.comma) {
    const std::size_t whole =
        std::min(text.digits.find_first_not_of("0123456789"), text.digits.size());
    text.digits = with_commas(text.digits.substr(0, whole)) + text.digits.substr(whole);
  }
  if (percent) text.digits += '%';
  return text;
}

TextPtr pad(Budget& budget, const FormatSpec& spec, char align, std::string_view prefix,
            const Text& body) {
  const std::size_t length = count_code_points(prefix) + count_code_points(body.bytes);
  const auto width = static_cast<std::size_t>(spec.width);
  const std::size_t missing = width > length ? width - length : 0;
  TextBuilder out(budget);
  Text fill;
  fill.bytes = spec.fill;
  const std::size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  out.repeat(fill, left);
  out.append(prefix);
  if (align == '=') out.repeat(fill, missing);
  out.append(body);
  if (align == '<' || align == '^') out.repeat(fill, missing - left);
  return out.take_shared();
}

[[noreturn]] void wrong_type(const FormatSpec& spec, const Value& value) {
  value_error(std::string("Unknown format code '") + spec.type + "' for object of type '" +
              value.type_name() + "'");
}

}  // namespace

FormatSpec parse_format_spec(std::string_view spec) {
  return SpecParser(spec).run();
}

TextPtr format_with(Budget& budget, const Value& value, const FormatSpec& spec) {
  static constexpr std::string_view kIntegerTypes = "dxXobn";
  static constexpr std::string_view kRealTypes = "eEfFgGn%";
  const char align = spec.align != '\0' ? spec.align : value.is_number() ? '>' : '<';
  NumberText number;
  if (value.is_integral() && !(value.is_bool() && spec.type == '\0') &&
      (spec.type == '\0' || kIntegerTypes.find(spec.type) != std::string_view::npos)) {
    number = integer_text(value.as_int(), spec);
  } else if (value.is_number() && !value.is_bool() &&
             (spec.type == '\0' || kRealTypes.find(spec.type) != std::string_view::npos)) {
    number = real_text(value.as_double(), spec);
  } else {
    if (spec.type != '\0' && (spec.type != 's' || value.is_number())) wrong_type(spec, value);
    const TextPtr text = to_text(budget, value);
    TextPtr body = text;
    if (spec.precision >= 0) {
      const std::vector<std::size_t> offsets = code_point_offsets(text->bytes);
      budget.work(text->bytes.size());
      const auto count = std::min(static_cast<std::size_t>(spec.precision), offsets.size() - 1);
      body = sub_text(budget, *text, 0, offsets[count]);
    }
    if (align == '=') value_error("'=' alignment not allowed in string format specifier");
    return pad(budget, spec, align, "", *body);
  }
  Text digits;
  digits.bytes = number.digits;
  return pad(budget, spec, align, number.prefix, digits);
}

}  // namespace sluice::jinja
