#include "engine/chat/jinja/unicode.hpp"

#include <algorithm>
#include <span>

#include "engine/chat/jinja/unicode_tables.hpp"

namespace sluice::jinja {

namespace {

bool contains(std::span<const CodePointRange> ranges, char32_t c) {
  const auto range = std::lower_bound(
      ranges.begin(), ranges.end(), c,
      [](const CodePointRange& candidate, char32_t value) { return candidate.last < value; });
  return range != ranges.end() && range->first <= c;
}

const SpecialCase* find_special(std::span<const SpecialCase> table, char32_t c) {
  const auto row = std::lower_bound(
      table.begin(), table.end(), c,
      [](const SpecialCase& candidate, char32_t value) { return candidate.from < value; });
  return row != table.end() && row->from == c ? &*row : nullptr;
}

CaseMapping from_special(const SpecialCase& row) {
  CaseMapping mapping;
  std::copy(row.to, row.to + row.count, mapping.values);
  mapping.count = row.count;
  return mapping;
}

CaseMapping single(char32_t c) {
  CaseMapping mapping;
  mapping.values[0] = c;
  return mapping;
}

CaseMapping from_runs(std::span<const CaseRun> runs, char32_t c) {
  const auto run = std::lower_bound(
      runs.begin(), runs.end(), c,
      [](const CaseRun& candidate, char32_t value) { return candidate.last < value; });
  if (run != runs.end() && run->first <= c && (c - run->first) % run->stride == 0) {
    return single(static_cast<char32_t>(static_cast<std::int64_t>(c) + run->delta));
  }
  return single(c);
}

bool is_continuation(std::string_view text, std::size_t position) {
  return position < text.size() && (static_cast<unsigned char>(text[position]) & 0xC0U) == 0x80U;
}

}  // namespace

CodePoint decode_utf8(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t offset) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + offset]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const CodePoint raw{kRawByte + lead, 1};
  if (lead >= 0xC2 && lead <= 0xDF && is_continuation(text, position + 1)) {
    return {((lead & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  }
  if (lead >= 0xE0 && lead <= 0xEF && is_continuation(text, position + 1) &&
      is_continuation(text, position + 2)) {
    const char32_t c = ((lead & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F);
    const bool valid = c >= 0x800 && (c < 0xD800 || c > 0xDFFF);
    return valid ? CodePoint{c, 3} : raw;
  }
  if (lead >= 0xF0 && lead <= 0xF4 && is_continuation(text, position + 1) &&
      is_continuation(text, position + 2) && is_continuation(text, position + 3)) {
    const char32_t c = ((lead & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) |
                       (byte(3) & 0x3F);
    const bool valid = c >= 0x10000 && c <= 0x10FFFF;
    return valid ? CodePoint{c, 4} : raw;
  }
  return raw;
}

std::size_t encode_utf8(char32_t c, char* out) {
  const auto put = [&](std::size_t index, char32_t value) {
    out[index] = static_cast<char>(static_cast<unsigned char>(value));
  };
  if (c < 0x80) {
    put(0, c);
    return 1;
  }
  if (c >= kRawByte) {
    put(0, (c - kRawByte) & 0xFF);
    return 1;
  }
  if (c < 0x800) {
    put(0, 0xC0 | (c >> 6));
    put(1, 0x80 | (c & 0x3F));
    return 2;
  }
  if (c < 0x10000) {
    put(0, 0xE0 | (c >> 12));
    put(1, 0x80 | ((c >> 6) & 0x3F));
    put(2, 0x80 | (c & 0x3F));
    return 3;
  }
  put(0, 0xF0 | (c >> 18));
  put(1, 0x80 | ((c >> 12) & 0x3F));
  put(2, 0x80 | ((c >> 6) & 0x3F));
  put(3, 0x80 | (c & 0x3F));
  return 4;
}

std::size_t count_code_points(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).length) ++count;
  return count;
}

std::vector<std::size_t> code_point_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size(); at += decode_utf8(text, at).length) {
    offsets.push_back(at);
  }
  offsets.push_back(text.size());
  return offsets;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  return c < kRawByte && !contains(kUnprintable, c);
}
bool is_alpha(char32_t c) {
  return contains(kAlphabetic, c);
}
bool is_digit(char32_t c) {
  return contains(kDigits, c);
}
bool is_alnum(char32_t c) {
  return is_alpha(c) || contains(kNumeric, c);
}
bool is_upper(char32_t c) {
  return contains(kUppercase, c);
}
bool is_lower(char32_t c) {
  return contains(kLowercase, c);
}
bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || contains(kTitlecase, c);
}

CaseMapping to_upper(char32_t c) {
  if (c < 0x80) return single(c >= 'a' && c <= 'z' ? c - 32 : c);
  if (const SpecialCase* row = find_special(kSpecialUpper, c)) return from_special(*row);
  return from_runs(kToUpper, c);
}

CaseMapping to_lower(char32_t c) {
  if (c < 0x80) return single(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (const SpecialCase* row = find_special(kSpecialLower, c)) return from_special(*row);
  return from_runs(kToLower, c);
}

CaseMapping to_title(char32_t c) {
  if (const SpecialCase* row = find_special(kSpecialTitle, c)) return from_special(*row);
  return to_upper(c);
}

}  // namespace sluice::jinja
