#include "engine/chat/jinja/text_tools.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

#include "engine/chat/jinja/failure.hpp"
#include "engine/chat/jinja/python_format.hpp"
#include "engine/chat/jinja/text_search.hpp"
#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

/// Byte offset of the code point that ends at `end`.
std::size_t previous(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && end - at < 4 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return at + decode_utf8(text, at).length == end ? at : end - 1;
}

Value piece(Budget& budget, const Text& text, std::size_t begin, std::size_t end) {
  budget.allocate(sizeof(Text) + sizeof(Value));
  return Value::text(sub_text(budget, text, begin, end));
}

std::vector<Value> split_at_spaces(Budget& budget, const Text& text, std::int64_t limit) {
  const std::string_view bytes = text.bytes;
  std::vector<Value> parts;
  std::size_t at = 0;
  while (true) {
    while (at < bytes.size() && is_space(decode_utf8(bytes, at).value)) {
      at += decode_utf8(bytes, at).length;
    }
    if (at >= bytes.size()) return parts;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit) {
      std::size_t end = bytes.size();
      while (is_space(decode_utf8(bytes, previous(bytes, end)).value)) end = previous(bytes, end);
      parts.push_back(piece(budget, text, at, end));
      return parts;
    }
    const std::size_t begin = at;
    while (at < bytes.size() && !is_space(decode_utf8(bytes, at).value)) {
      at += decode_utf8(bytes, at).length;
    }
    parts.push_back(piece(budget, text, begin, at));
  }
}

std::vector<Value> split_at_spaces_from_right(Budget& budget, const Text& text,
                                              std::int64_t limit) {
  const std::string_view bytes = text.bytes;
  std::vector<Value> parts;
  std::size_t end = bytes.size();
  while (true) {
    while (end > 0 && is_space(decode_utf8(bytes, previous(bytes, end)).value)) {
      end = previous(bytes, end);
    }
    if (end == 0) break;
    std::size_t begin = end;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit) {
      begin = 0;
      while (is_space(decode_utf8(bytes, begin).value)) begin += decode_utf8(bytes, begin).length;
      parts.push_back(piece(budget, text, begin, end));
      break;
    }
    while (begin > 0 && !is_space(decode_utf8(bytes, previous(bytes, begin)).value)) {
      begin = previous(bytes, begin);
    }
    parts.push_back(piece(budget, text, begin, end));
    end = begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<Value> split_from_right(Budget& budget, const Text& text, const Text& separator,
                                    std::int64_t limit) {
  const ReverseFinder finder(text.bytes, separator.bytes);
  budget.allocate(text.bytes.size());
  std::vector<Value> parts;
  std::size_t end = text.bytes.size();
  while (static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = finder.find(end);
    if (found == std::string::npos) break;
    parts.push_back(piece(budget, text, found + separator.bytes.size(), end));
    end = found;
  }
  parts.push_back(piece(budget, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

template <class Map>
TextPtr map_case(Budget& budget, const Text& text, Map&& map) {
  TextBuilder out(budget);
  const bool marked = text.any_untrusted();
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint c = decode_utf8(text.bytes, at);
    const bool untrusted = marked && text.untrusted_in(at, at + c.length);
    const CaseMapping mapping = map(c.value, at);
    for (std::size_t i = 0; i < mapping.count; ++i) {
      out.append_code_point(mapping.values[i], untrusted);
    }
    at += c.length;
  }
  out.set_escaped(text.escaped);
  return out.take_shared();
}

/// Lower case of a code point where it stands: the Greek sigma has a form for the end of words.
CaseMapping lower_at(const Text& text, char32_t c, std::size_t at) {
  if (c != 0x3A3) return to_lower(c);
  const std::string_view bytes = text.bytes;
  const bool after_letter = at > 0 && is_alpha(decode_utf8(bytes, previous(bytes, at)).value);
  const bool before_letter = at + 2 < bytes.size() && is_alpha(decode_utf8(bytes, at + 2).value);
  CaseMapping mapping;
  mapping.values[0] = after_letter && !before_letter ? 0x3C2 : 0x3C3;
  return mapping;
}

std::string_view strip_spaces(std::string_view text) {
  std::size_t begin = 0;
  while (begin < text.size() && is_space(decode_utf8(text, begin).value)) {
    begin += decode_utf8(text, begin).length;
  }
  std::size_t end = text.size();
  while (end > begin && is_space(decode_utf8(text, previous(text, end)).value)) {
    end = previous(text, end);
  }
  return text.substr(begin, end - begin);
}

/// Removes single "_" between digits; empty when one is misplaced.
std::string without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_' && text[i + 1] != '_';
    if (!between) return {};
  }
  return out;
}

}  // namespace

TextPtr strip(Budget& budget, const Text& text, const Text* characters, Side side) {
  std::set<char32_t> set;
  if (characters != nullptr) {
    budget.work(characters->bytes.size() * 20);
    for (std::size_t at = 0; at < characters->bytes.size();) {
      const CodePoint c = decode_utf8(characters->bytes, at);
      set.insert(c.value);
      at += c.length;
    }
  }
  const std::string_view bytes = text.bytes;
  const auto removed = [&](std::size_t at) {
    const char32_t c = decode_utf8(bytes, at).value;
    return characters != nullptr ? set.contains(c) : is_space(c);
  };
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  if (side != Side::kRight) {
    while (begin < end && removed(begin)) begin += decode_utf8(bytes, begin).length;
  }
  if (side != Side::kLeft) {
    while (end > begin && removed(previous(bytes, end))) end = previous(bytes, end);
  }
  return sub_text(budget, text, begin, end);
}

TextPtr replace(Budget& budget, const Text& text, const Text& from, const Text& to,
                std::int64_t count) {
  TextBuilder out(budget);
  out.set_escaped(text.escaped);
  std::size_t at = 0;
  std::int64_t done = 0;
  const auto more = [&] { return count < 0 || done < count; };
  budget.work(text.bytes.size());
  if (from.bytes.empty()) {
    while (more()) {
      out.append(to);
      ++done;
      if (at >= text.bytes.size()) break;
      const std::size_t next = at + decode_utf8(text.bytes, at).length;
      out.append(text, at, next);
      at = next;
    }
  } else {
    while (more()) {
      const std::size_t found = find_bytes(text.bytes, from.bytes, at);
      if (found == std::string::npos) break;
      out.append(text, at, found);
      out.append(to);
      at = found + from.bytes.size();
      ++done;
    }
  }
  out.append(text, at, text.bytes.size());
  return out.take_shared();
}

std::vector<Value> split_lines(Budget& budget, const Text& text, bool keep_ends) {
  std::vector<Value> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const CodePoint c = decode_utf8(text.bytes, at);
    const std::size_t line_end = at;
    at += c.length;
    if (!is_line_end(c.value)) continue;
    if (c.value == '\r' && at < text.bytes.size() && text.bytes[at] == '\n') ++at;
    lines.push_back(piece(budget, text, begin, keep_ends ? at : line_end));
    begin = at;
  }
  if (begin < text.bytes.size()) lines.push_back(piece(budget, text, begin, text.bytes.size()));
  return lines;
}

std::vector<Value> split(Budget& budget, const Text& text, const Text* separator,
                         std::int64_t limit, bool from_right) {
  budget.work(text.bytes.size());
  if (separator == nullptr) {
    return from_right && limit >= 0 ? split_at_spaces_from_right(budget, text, limit)
                                    : split_at_spaces(budget, text, limit);
  }
  if (separator->bytes.empty()) value_error("empty separator");
  if (from_right && limit >= 0) return split_from_right(budget, text, *separator, limit);
  std::vector<Value> parts;
  std::size_t at = 0;
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = find_bytes(text.bytes, separator->bytes, at);
    if (found == std::string::npos) break;
    parts.push_back(piece(budget, text, at, found));
    at = found + separator->bytes.size();
  }
  parts.push_back(piece(budget, text, at, text.bytes.size()));
  return parts;
}

TextPtr join(Budget& budget, const Text& separator, const std::vector<Value>& items,
             bool only_texts) {
  TextBuilder out(budget);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (only_texts && !items[i].is_text()) {
      type_error("sequence item " + std::to_string(i) + ": expected str instance, " +
                 items[i].type_name() + " found");
    }
    if (i != 0) out.append(separator);
    append_str(out, budget, items[i]);
  }
  return out.take_shared();
}

TextPtr upper(Budget& budget, const Text& text) {
  return map_case(budget, text, [](char32_t c, std::size_t) { return to_upper(c); });
}

TextPtr lower(Budget& budget, const Text& text) {
  return map_case(budget, text, [&](char32_t c, std::size_t at) { return lower_at(text, c, at); });
}

TextPtr capitalize(Budget& budget, const Text& text) {
  return map_case(budget, text, [&](char32_t c, std::size_t at) {
    return at == 0 ? to_title(c) : lower_at(text, c, at);
  });
}

TextPtr title(Budget& budget, const Text& text) {
  bool in_word = false;
  return map_case(budget, text, [&](char32_t c, std::size_t at) {
    const CaseMapping mapping = in_word ? lower_at(text, c, at) : to_title(c);
    in_word = is_cased(c);
    return mapping;
  });
}

std::optional<Value> parse_integer(std::string_view text, int base) {
  std::string_view body = strip_spaces(text);
  const bool negative = body.starts_with('-');
  if (negative || body.starts_with('+')) body.remove_prefix(1);
  const auto prefix_base = [&]() -> int {
    if (body.size() < 2 || body[0] != '0') return 0;
    switch (body[1] | 0x20) {
      case 'x':
        return 16;
      case 'o':
        return 8;
      case 'b':
        return 2;
      default:
        return 0;
    }
  }();
  if (prefix_base != 0 && (base == prefix_base || base == 0)) {
    body.remove_prefix(2);
    base = prefix_base;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return std::nullopt;
  const std::string digits = without_underscores(body);
  if (digits.empty() || digits.front() == '-') return std::nullopt;
  std::int64_t number = 0;
  const std::string signed_digits = (negative ? "-" : "") + digits;
  const char* const end = signed_digits.data() + signed_digits.size();
  const auto result = std::from_chars(signed_digits.data(), end, number, base);
  if (result.ptr != end) return std::nullopt;
  if (result.ec == std::errc()) return Value::integer(number);
  if (base != 10) return std::nullopt;
  return Value::big_integer((negative ? "-" : "") + digits.substr(digits.find_first_not_of('0')));
}

std::optional<double> parse_real(std::string_view text) {
  const std::string body = without_underscores(strip_spaces(text));
  if (body.empty() || body.size() > 1000) return std::nullopt;
  // strtod also reads hexadecimal numbers and "nan(...)", which Python does not.
  const bool plain = body.find_first_of("xXpP(") == std::string::npos;
  char* end = nullptr;
  const double number = std::strtod(body.c_str(), &end);
  if (!plain || end != body.c_str() + body.size()) return std::nullopt;
  return number;
}

}  // namespace sluice::jinja
