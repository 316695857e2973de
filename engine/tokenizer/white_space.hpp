// Unicode's White_Space at the ends of text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace sluice {

/// All of them in UTF-8. Source: Unicode 15, PropList.txt.
inline constexpr std::string_view kWhiteSpaces[] = {" ",
                                                    "\t",
                                                    "\n",
                                                    "\v",
                                                    "\f",
                                                    "\r",
                                                    "\xC2\x85",
                                                    "\xC2\xA0",
                                                    "\xE1\x9A\x80",
                                                    "\xE2\x80\x80",
                                                    "\xE2\x80\x81",
                                                    "\xE2\x80\x82",
                                                    "\xE2\x80\x83",
                                                    "\xE2\x80\x84",
                                                    "\xE2\x80\x85",
                                                    "\xE2\x80\x86",
                                                    "\xE2\x80\x87",
                                                    "\xE2\x80\x88",
                                                    "\xE2\x80\x89",
                                                    "\xE2\x80\x8A",
                                                    "\xE2\x80\xA8",
                                                    "\xE2\x80\xA9",
                                                    "\xE2\x80\xAF",
                                                    "\xE2\x81\x9F",
                                                    "\xE3\x80\x80"};

/// Bytes of white space that `text` begins with.
inline std::size_t leading_white_space(std::string_view text) {
  std::size_t at = 0;
  for (;;) {
    const auto found =
        std::find_if(std::begin(kWhiteSpaces), std::end(kWhiteSpaces),
                     [&](std::string_view space) { return text.substr(at).starts_with(space); });
    if (found == std::end(kWhiteSpaces)) return at;
    at += found->size();
  }
}

/// Bytes of white space that `text` ends with.
inline std::size_t trailing_white_space(std::string_view text) {
  std::size_t count = 0;
  for (;;) {
    const std::string_view rest = text.substr(0, text.size() - count);
    const auto found = std::find_if(std::begin(kWhiteSpaces), std::end(kWhiteSpaces),
                                    [&](std::string_view space) { return rest.ends_with(space); });
    if (found == std::end(kWhiteSpaces)) return count;
    count += found->size();
  }
}

}  // namespace sluice
