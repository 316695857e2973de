// The shape of UTF-8, for code that walks text of unknown quality.
#pragma once

#include <cstddef>
#include <string_view>

namespace sluice {

/// Bytes of the well-formed code point at text[at], 1 to 4; 0 when what stands there is not
/// well-formed UTF-8 (overlong forms, surrogates and values past U+10FFFF are not).
/// Source: Unicode 15, table 3-7.
inline std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return at < text.size() ? 1 : 0;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
    return byte(1) >= low && byte(1) <= high && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

/// Bytes of the longest well-formed UTF-8 at the start of `text`.
inline std::size_t well_formed_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text, at);
    if (length == 0) break;
    at += length;
  }
  return at;
}

}  // namespace sluice
