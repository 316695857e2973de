// The mark that stands for a space in vocabularies of the SentencePiece kind.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// U+2581 in UTF-8.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

std::string marks_to_spaces(std::string_view text);
std::string spaces_to_marks(std::string_view text);

/// The byte of a token written as "<0xNN>".
std::optional<unsigned char> byte_of_token(std::string_view text);

}  // namespace sluice
