#include "engine/chat/jinja/json_output.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/python_format.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

class Writer {
 public:
  Writer(TextBuilder& out, Budget& budget, const JsonStyle& style)
      : out_(out), budget_(budget), style_(style) {}

  void value(const Value& value, std::size_t level) {
    const Budget::Level guard(budget_);
    budget_.work(4);
    if (value.is_none()) {
      out_.append("null");
    } else if (value.is_bool()) {
      out_.append(value.as_bool() ? "true" : "false");
    } else if (value.is_float()) {
      out_.append(real(value.as_double()));
    } else if (value.is_int() || value.is_big_integer()) {
      append_repr(out_, budget_, value);
    } else if (value.is_text()) {
      text(value.as_text());
    } else if (value.is_sequence(SequenceType::kList) || value.is_sequence(SequenceType::kTuple)) {
      array(value.items(), level + 1);
    } else if (value.is_dict()) {
      object(value.as_dict(), level + 1);
    } else {
      type_error("Object of type " + value.type_name() + " is not JSON serializable");
    }
  }

 private:
  static std::string real(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return format_real(number);
  }

  void array(const std::vector<Value>& items, std::size_t level) {
    out_.append("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      separate(i, level);
      value(items[i], level);
    }
    close("]", items.empty(), level);
  }

  void object(const Dict& dict, std::size_t level) {
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) sort(entries);
    out_.append("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      separate(i, level);
      key(entries[i]->first);
      out_.append(style_.key_separator);
      value(entries[i]->second, level);
    }
    close("}", entries.empty(), level);
  }

  void sort(std::vector<const Dict::Entry*>& entries) {
    for (const Dict::Entry* entry : entries) {
      if (!entry->first.is_text()) type_error("sort_keys needs keys that are all strings");
      budget_.work(entry->first.bytes().size());
    }
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      budget_.work(16);
      return a->first.bytes() < b->first.bytes();
    });
  }

  void key(const Value& key) {
    if (key.is_text()) {
      text(key.as_text());
    } else if (key.is_number() || key.is_none() || key.is_big_integer()) {
      out_.append("\"");
      value(key, 0);
      out_.append("\"");
    } else {
      type_error("keys must be str, int, float, bool or None, not " + key.type_name());
    }
  }

  void separate(std::size_t index, std::size_t level) {
    if (index != 0) out_.append(style_.item_separator);
    if (style_.indent) line(level);
  }

  void close(std::string_view bracket, bool empty, std::size_t level) {
    if (!empty && style_.indent) line(level - 1);
    out_.append(bracket);
  }

  void line(std::size_t level) {
    out_.append("\n");
    for (std::size_t i = 0; i < level; ++i) out_.append(*style_.indent);
  }

  void text(const Text& text) {
    const bool untrusted = text.any_untrusted();
    out_.append("\"");
    std::size_t plain_from = 0;
    const std::string_view bytes = text.bytes;
    for (std::size_t at = 0; at < bytes.size();) {
      const CodePoint c = decode_utf8(bytes, at);
      char buffer[16];
      const std::string_view escape = escaped(c.value, buffer);
      if (!escape.empty()) {
        out_.append(bytes.substr(plain_from, at - plain_from), untrusted);
        out_.append(escape, untrusted);
        plain_from = at + c.length;
      }
      at += c.length;
    }
    out_.append(bytes.substr(plain_from), untrusted);
    out_.append("\"");
  }

  /// Empty for code points that stand for themselves.
  std::string_view escaped(char32_t c, char (&buffer)[16]) const {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\f':
        return "\\f";
      case '\b':
        return "\\b";
      default:
        break;
    }
    const auto value = static_cast<unsigned>(c);
    int length = 0;
    if (c < 0x20 || (style_.ensure_ascii && c > 0x7E && c < 0x10000)) {
      if (c == 0x7F) return {};
      length = std::snprintf(buffer, sizeof buffer, "\\u%04x", value);
    } else if (style_.ensure_ascii && c >= 0x10000 && c < kRawByte) {
      const unsigned rest = value - 0x10000;
      length = std::snprintf(buffer, sizeof buffer, "\\u%04x\\u%04x", 0xD800 + (rest >> 10),
                             0xDC00 + (rest & 0x3FF));
    } else if (c >= kRawByte && style_.ensure_ascii) {
      return "\\ufffd";
    }
    return {buffer, static_cast<std::size_t>(length)};
  }

  TextBuilder& out_;
  Budget& budget_;
  const JsonStyle& style_;
};

}  // namespace

void append_json(TextBuilder& out, Budget& budget, const Value& value, const JsonStyle& style) {
  Writer(out, budget, style).value(value, 0);
}

}  // namespace sluice::jinja
