#include "engine/base/json_writer.hpp"

#include <cassert>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

namespace sluice {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// What stands at the beginning of some bytes.
struct CodePoint {
  std::size_t length = 1;  ///< bytes to consume
  bool valid = false;
};

bool is_continuation(unsigned char byte) {
  return (byte & 0xC0U) == 0x80U;
}

/// One step of a UTF-8 decoder after Unicode 15, table 3-7. Of invalid input it consumes the
/// longest prefix that could have begun a code point (section 3.9, "maximal subpart"), so that
/// the number of replacement characters is the one browsers give.
CodePoint scan_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

  // The second byte has a narrower range after some lead bytes: no overlong forms, no
  // surrogates, nothing above U+10FFFF.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return {1, false};
  for (std::size_t i = 2; i < length; ++i) {
    if (i >= text.size() || !is_continuation(byte(i))) return {i, false};
  }
  return {length, true};
}

void append_unicode_escape(std::string& out, unsigned code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(code >> shift) & 0xFU];
}

void append_ascii(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(c);
  if (code < 0x20 || code == 0x7F) {
    append_unicode_escape(out, code);
  } else {
    out += c;
  }
}

/// RFC 8259 section 7. Also escapes U+2028 and U+2029, which end a line in JavaScript source.
void append_quoted(std::string& out, std::string_view text) {
  out.reserve(out.size() + text.size() + 2);
  out += '"';
  while (!text.empty()) {
    const CodePoint point = scan_code_point(text);
    const std::string_view bytes = text.substr(0, point.length);
    if (!point.valid) {
      out += kReplacement;
    } else if (point.length == 1) {
      append_ascii(out, bytes.front());
    } else if (bytes == "\xE2\x80\xA8") {
      out += "\\u2028";
    } else if (bytes == "\xE2\x80\xA9") {
      out += "\\u2029";
    } else {
      out += bytes;
    }
    text.remove_prefix(point.length);
  }
  out += '"';
}

constexpr std::size_t kMaxNumberBytes = 32;  // the longest double takes 24

template <class Integer>
void append_integer(std::string& out, Integer number) {
  char buffer[kMaxNumberBytes];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, number);
  assert(result.ec == std::errc());
  out.append(buffer, result.ptr);
}

/// The shortest form that reads back as the same number. Large ones always get an exponent:
/// 20 or more digits without one look to some parsers like an integer beyond 64 bits.
template <class Float>
void append_float(std::string& out, Float number) {
  constexpr auto kPlainMax = static_cast<Float>(1e15);
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char buffer[kMaxNumberBytes];
  const auto result =
      std::abs(number) < kPlainMax
          ? std::to_chars(buffer, buffer + sizeof buffer, number)
          : std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  assert(result.ec == std::errc());
  out.append(buffer, result.ptr);
}

}  // namespace

JsonWriter& JsonWriter::begin_object() {
  begin_value();
  out_ += '{';
  stack_.push_back('{');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::end_object() {
  assert(!stack_.empty() && stack_.back() == '{' && !after_key_);
  if (!stack_.empty()) stack_.pop_back();
  out_ += '}';
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::begin_array() {
  begin_value();
  out_ += '[';
  stack_.push_back('[');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::end_array() {
  assert(!stack_.empty() && stack_.back() == '[');
  if (!stack_.empty()) stack_.pop_back();
  out_ += ']';
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  assert(!stack_.empty() && stack_.back() == '{' && !after_key_);
  separate();
  append_quoted(out_, name);
  out_ += ':';
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  begin_value();
  append_quoted(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) {
  begin_value();
  out_ += flag ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  begin_value();
  append_float(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(float number) {
  begin_value();
  append_float(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  begin_value();
  append_integer(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  begin_value();
  append_integer(out_, number);
  return *this;
}

JsonWriter& JsonWriter::null() {
  begin_value();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  begin_value();
  out_ += json;
  return *this;
}

void JsonWriter::clear() {
  out_.clear();
  stack_.clear();
  need_comma_ = false;
  after_key_ = false;
}

std::string JsonWriter::take() {
  assert(stack_.empty());
  std::string text = std::move(out_);
  clear();
  return text;
}

void JsonWriter::begin_value() {
  assert(after_key_ || stack_.empty() || stack_.back() == '[');
  separate();
}

void JsonWriter::separate() {
  if (need_comma_ && !after_key_) out_ += ',';
  after_key_ = false;
  need_comma_ = true;
}

}  // namespace sluice
