// The printable stand-ins for bytes in vocabularies of byte-level BPE.
//
// Every byte has one code point: printable Latin-1 characters stand for themselves, the other 68
// bytes for U+0100, U+0101, ... in order, so a space reads as U+0120. Source: the encoder of
// GPT-2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice {

/// The bytes that `text` stands for; empty when it holds anything outside the alphabet.
std::optional<std::string> bytes_from_alphabet(std::string_view text);

/// The stand-ins of any bytes.
std::string alphabet_from_bytes(std::string_view bytes);

}  // namespace sluice
