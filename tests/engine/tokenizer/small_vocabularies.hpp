// Small vocabularies for tests, and random text to feed them.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/tokenizer/tokenizer.hpp"
#include "tests/support/gguf_writer.hpp"

namespace sluice::test {

inline std::string utf8(std::uint32_t code_point) {
  std::string out;
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
  return out;
}

/// The stand-in of a byte in byte-level vocabularies, worked out by the rule, not by a table.
inline std::string stand_in(int byte) {
  int next = 0x100;
  for (int b = 0; b <= byte; ++b) {
    const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    if (b == byte) return utf8(static_cast<std::uint32_t>(itself ? b : next));
    if (!itself) ++next;
  }
  return "";
}

struct BpeVocabulary {
  std::string pre = "gpt-2";
  std::vector<std::string> tokens;
  std::vector<std::int32_t> kinds;
  std::vector<std::string> merges;

  /// All 256 bytes, ids 0 to 255.
  static BpeVocabulary of_bytes() {
    BpeVocabulary v;
    for (int byte = 0; byte < 256; ++byte) v.add(stand_in(byte));
    return v;
  }
  TokenId add(const std::string& token, std::int32_t kind = 1) {
    tokens.push_back(token);
    kinds.push_back(kind);
    return static_cast<TokenId>(tokens.size() - 1);
  }
  TokenId add_merge(const std::string& left, const std::string& right) {
    merges.push_back(left + " " + right);
    return add(left + right);
  }
  GgufWriter writer() const {
    GgufWriter writer;
    writer.add_string("tokenizer.ggml.model", "gpt2");
    writer.add_string("tokenizer.ggml.pre", pre);
    writer.add_strings("tokenizer.ggml.tokens", tokens);
    writer.add_i32s("tokenizer.ggml.token_type", kinds);
    writer.add_strings("tokenizer.ggml.merges", merges);
    return writer;
  }
};

inline std::shared_ptr<const Tokenizer> tokenizer_of(const GgufWriter& writer) {
  const TempFile file = writer.write_temp();
  return make_tokenizer(*open_model(file.path()));
}

/// Well-formed UTF-8 with many kinds of characters next to each other.
inline std::string random_text(std::mt19937& random, std::size_t num_code_points) {
  static const std::vector<std::uint32_t> kInteresting = {
      ' ',    ' ',    '\n',   '\r',    '\t',   '\'',   's',    'T',    '0',
      '7',    '.',    ',',    '!',     '/',    '_',    '<',    '|',    '>',
      0xA0,   0x85,   0x300,  0x1F600, 0x4E00, 0x3042, 0x2028, 0x180E, 0x3000,
      0x2581, 0x0410, 0x0660, 0x2160,  0xFFFD, 0x200D, 0};
  const auto below = [&](std::uint32_t limit) {
    return static_cast<std::uint32_t>(random() % limit);
  };
  std::string text;
  for (std::size_t i = 0; i < num_code_points; ++i) {
    std::uint32_t code_point = 0;
    switch (random() % 4) {
      case 0:
        code_point = 'a' + below(4);
        break;
      case 1:
        code_point = kInteresting[random() % kInteresting.size()];
        break;
      case 2:
        code_point = below(0x3000);
        break;
      default:
        code_point = below(0x110000);
        break;
    }
    if (code_point >= 0xD800 && code_point <= 0xDFFF) code_point = 'x';
    text += utf8(code_point);
  }
  return text;
}

inline std::string random_bytes(std::mt19937& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace sluice::test
