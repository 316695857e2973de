// Bytes in, whole code points out.
//
// Worked example: append("\xF0\x9F") gives "", append("\x98\x80!") gives "\U0001F600!".
// Bytes that can never become valid UTF-8 are replaced by U+FFFD, one per maximal invalid
// prefix (Unicode 15, 3.9, "substitution of maximal subparts").
#pragma once

#include <string>
#include <string_view>

namespace sluice {

class Utf8Accumulator {
 public:
  /// Adds bytes and appends to `out` what is whole now.
  void append(std::string_view bytes, std::string& out);
  /// At the end of the stream: an incomplete tail becomes one U+FFFD.
  void finish(std::string& out);
  /// Bytes waiting for their code point to become whole: 0 to 3.
  std::size_t pending() const { return pending_size_; }

 private:
  char pending_[4] = {};
  std::size_t pending_size_ = 0;
};

/// True when `text` is valid UTF-8 (no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view text);

/// Copy of `text` with every invalid part replaced by U+FFFD.
std::string to_valid_utf8(std::string_view text);

}  // namespace sluice
