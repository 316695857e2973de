// Code points: UTF-8 and the few properties that string operations of templates ask for.
// Properties follow Unicode 14, the version of the reference (Python 3.11).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace sluice::jinja {

/// Stands for a byte that is not part of valid UTF-8: kRawByte + the byte. encode_utf8 turns it
/// back into that byte, so broken text passes through unchanged.
inline constexpr char32_t kRawByte = 0x110000;

struct CodePoint {
  char32_t value = 0;
  std::size_t length = 1;  ///< bytes
};

/// Decodes at `position`, which must be inside `text`. Broken bytes come out one at a time.
CodePoint decode_utf8(std::string_view text, std::size_t position);
/// Writes up to 4 bytes and returns their number.
std::size_t encode_utf8(char32_t code_point, char* out);
std::size_t count_code_points(std::string_view text);
/// Byte offset of every code point, and the end of the text as the last entry.
std::vector<std::size_t> code_point_offsets(std::string_view text);

bool is_space(char32_t c);      ///< what strip() removes
bool is_line_end(char32_t c);   ///< where splitlines() cuts
bool is_printable(char32_t c);  ///< shown as itself by repr()
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_alnum(char32_t c);
bool is_cased(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);

/// One code point becomes up to three ("ß" in upper case is "SS").
struct CaseMapping {
  char32_t values[3] = {};
  std::size_t count = 1;
};
CaseMapping to_upper(char32_t c);
CaseMapping to_lower(char32_t c);
CaseMapping to_title(char32_t c);

}  // namespace sluice::jinja
