// One code point off the front of a text that is valid UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace sluice {

struct DecodedCodePoint {
  char32_t value = 0;
  std::size_t size = 0;  ///< bytes; 1 to 4, never more than there are
};

/// `text` is not empty. In text that is not valid UTF-8 the values mean nothing, but the sizes
/// stay within the text.
constexpr DecodedCodePoint decode_code_point(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xC0) return {lead, 1};
  const std::size_t size = std::min<std::size_t>(lead < 0xE0   ? 2
                                                 : lead < 0xF0 ? 3
                                                               : 4,
                                                 text.size());
  char32_t value = lead & (0x7FU >> (lead < 0xE0 ? 2U : lead < 0xF0 ? 3U : 4U));
  for (std::size_t i = 1; i < size; ++i) value = value << 6U | (byte(i) & 0x3FU);
  return {value, size};
}

}  // namespace sluice
