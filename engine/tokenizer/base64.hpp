// Base64 as tokenizer files use it. Source: RFC 4648, section 4.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The bytes, or nothing when the text is not base64 (padding may be missing).
inline std::optional<std::string> bytes_from_base64(std::string_view text) {
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6 | static_cast<unsigned>(digit)) & 0xFFFFU;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xFFU);
    }
  }
  if (count >= 6) return std::nullopt;  // a single digit is left
  return bytes;
}

}  // namespace sluice
