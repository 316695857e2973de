#include "engine/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstddef>

#include "engine/tokenizer/utf8.hpp"

namespace sluice {
namespace {

constexpr unsigned kFirstStandIn = 0x100;
constexpr std::size_t kNumStandIns = 68;
constexpr int kNone = -1;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

/// Byte of every code point below U+0144, or kNone.
constexpr std::array<int, kFirstStandIn + kNumStandIns> make_table() {
  std::array<int, kFirstStandIn + kNumStandIns> table{};
  std::size_t next = kFirstStandIn;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    table[byte] = kNone;
    if (stands_for_itself(static_cast<unsigned>(byte))) {
      table[byte] = static_cast<int>(byte);
    } else {
      table[next++] = static_cast<int>(byte);
    }
  }
  return table;
}
constexpr auto kByteOf = make_table();

constexpr std::array<unsigned, 256> invert_table() {
  std::array<unsigned, 256> table{};
  for (std::size_t c = 0; c < kByteOf.size(); ++c) {
    if (kByteOf[c] != kNone) table[static_cast<std::size_t>(kByteOf[c])] = static_cast<unsigned>(c);
  }
  return table;
}
constexpr auto kStandInOf = invert_table();

}  // namespace

std::optional<std::string> bytes_from_alphabet(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    const auto first = static_cast<unsigned char>(text[i]);
    unsigned code_point = first;
    if (length == 2) {
      code_point = ((first & 0x1FU) << 6) | (static_cast<unsigned char>(text[i + 1]) & 0x3FU);
    } else if (length != 1) {
      return std::nullopt;  // ill-formed, or past the alphabet
    }
    if (code_point >= kByteOf.size() || kByteOf[code_point] == kNone) return std::nullopt;
    bytes += static_cast<char>(kByteOf[code_point]);
    i += length;
  }
  return bytes;
}

std::string alphabet_from_bytes(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 4);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const unsigned code_point = kStandInOf[byte];
    if (code_point < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xC0U | code_point >> 6);
      text += static_cast<char>(0x80U | (code_point & 0x3FU));
    }
  }
  return text;
}

}  // namespace sluice
