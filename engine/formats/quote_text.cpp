#include "engine/formats/quote_text.hpp"

#include <fmt/format.h>

namespace sluice {

std::string quote_text(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kLongest) out += "...";
  out += '\'';
  return out;
}

}  // namespace sluice
