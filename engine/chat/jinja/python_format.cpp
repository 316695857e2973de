#include "engine/chat/jinja/python_format.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

void append_escaped(TextBuilder& out, char32_t c, bool untrusted) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  const char32_t value = c >= kRawByte ? c - kRawByte : c;
  const int digits = value < 0x100 ? 2 : value < 0x10000 ? 4 : 8;
  std::string escape = digits == 2 ? "\\x" : digits == 4 ? "\\u" : "\\U";
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) escape += kHex[(value >> shift) & 15];
  out.append(escape, untrusted);
}

void append_text_repr(TextBuilder& out, const Text& text) {
  const bool has_single = text.bytes.find('\'') != std::string::npos;
  const bool has_double = text.bytes.find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  const bool untrusted = text.any_untrusted();
  out.append(std::string_view(&quote, 1));
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint c = decode_utf8(text.bytes, at);
    if (c.value == static_cast<char32_t>(quote) || c.value == '\\') {
      out.append("\\", untrusted);
      out.append_code_point(c.value, untrusted);
    } else if (c.value == '\n') {
      out.append("\\n", untrusted);
    } else if (c.value == '\r') {
      out.append("\\r", untrusted);
    } else if (c.value == '\t') {
      out.append("\\t", untrusted);
    } else if (is_printable(c.value)) {
      out.append(std::string_view(text.bytes).substr(at, c.length), untrusted);
    } else {
      append_escaped(out, c.value, untrusted);
    }
    at += c.length;
  }
  out.append(std::string_view(&quote, 1));
}

void append_items(TextBuilder& out, Budget& budget, const std::vector<Value>& items) {
  bool first = true;
  for (const Value& item : items) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, budget, item);
  }
}

void append_range(TextBuilder& out, const Sequence& range) {
  std::string text =
      "range(" + std::to_string(range.range[0]) + ", " + std::to_string(range.range[1]);
  if (range.range[2] != 1) text += ", " + std::to_string(range.range[2]);
  out.append(text + ")");
}

void append_sequence_repr(TextBuilder& out, Budget& budget, const Value& value) {
  const Sequence& sequence = value.as_sequence();
  switch (sequence.type) {
    case SequenceType::kList:
      out.append("[");
      append_items(out, budget, sequence.items);
      out.append("]");
      return;
    case SequenceType::kTuple:
      out.append("(");
      append_items(out, budget, sequence.items);
      out.append(sequence.items.size() == 1 ? ",)" : ")");
      return;
    case SequenceType::kRange:
      append_range(out, sequence);
      return;
    case SequenceType::kIterator:
      out.append("<generator object>");
      return;
    case SequenceType::kDictKeys:
    case SequenceType::kDictValues:
    case SequenceType::kDictItems:
      out.append(value.type_name() + "([");
      append_items(out, budget, sequence.items);
      out.append("])");
      return;
  }
}

void append_dict_repr(TextBuilder& out, Budget& budget, const Dict& dict) {
  bool first = true;
  out.append("{");
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, budget, key);
    out.append(": ");
    append_repr(out, budget, value);
  }
  out.append("}");
}

}  // namespace

std::string format_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const char* const end =
      std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t mark = scientific.find('e');
  const std::string sign = scientific.front() == '-' ? "-" : "";
  std::string digits;
  for (const char c : scientific.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  int exponent = 0;
  const std::size_t sign_length = scientific[mark + 1] == '+' ? 1 : 0;  // from_chars knows no "+"
  std::from_chars(scientific.data() + mark + 1 + sign_length, end, exponent);
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) {
    std::string out = sign + digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const std::string power = std::to_string(std::abs(exponent));
    return out + (exponent < 0 ? "e-" : "e+") + (power.size() < 2 ? "0" : "") + power;
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

void append_str(TextBuilder& out, Budget& budget, const Value& value) {
  if (value.is_text()) {
    out.append(value.as_text());
  } else if (!value.is_undefined()) {
    append_repr(out, budget, value);
  }
}

void append_repr(TextBuilder& out, Budget& budget, const Value& value) {
  const Budget::Level level(budget);
  budget.work(4);
  if (value.is_none()) {
    out.append("None");
  } else if (value.is_undefined()) {
    out.append("Undefined");
  } else if (value.is_bool()) {
    out.append(value.as_bool() ? "True" : "False");
  } else if (value.is_int()) {
    out.append(std::to_string(value.as_int()));
  } else if (value.is_big_integer()) {
    out.append(value.as_big_integer().digits);
  } else if (value.is_float()) {
    out.append(format_real(value.as_double()));
  } else if (value.is_text() && value.as_text().escaped) {
    out.append("Markup(");
    append_text_repr(out, value.as_text());
    out.append(")");
  } else if (value.is_text()) {
    append_text_repr(out, value.as_text());
  } else if (value.is_sequence()) {
    append_sequence_repr(out, budget, value);
  } else if (value.is_dict()) {
    append_dict_repr(out, budget, value.as_dict());
  } else if (value.is_callable()) {
    out.append(value.as_callable().is_macro ? "<Macro " + quoted(value.as_callable().name) + ">"
                                            : "<function " + value.as_callable().name + ">");
  } else {
    out.append("<" + value.type_name() + ">");
  }
}

TextPtr to_text(Budget& budget, const Value& value) {
  if (value.is_text()) return value.text_ptr();
  TextBuilder out(budget);
  append_str(out, budget, value);
  return out.take_shared();
}

std::string quoted(std::string_view text) {
  Budget budget{Limits{}};
  TextBuilder out(budget);
  Text plain;
  plain.bytes = text.substr(0, 200);
  append_text_repr(out, plain);
  return out.take().bytes;
}

}  // namespace sluice::jinja
