// Strings of the template engine: bytes that know where they came from.
//
// Some byte ranges of a text are untrusted: they were typed by a user or returned by a tool. What
// templates do with strings (join, cut, strip, replace, change case, serialise) carries the marks
// along, at worst marking more than needed. Worked example: "[" trusted, "Hi" untrusted, "]"
// trusted give bytes "[Hi]" with untrusted {1, 3}; upper case gives "[HI]" with the same range.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chat/jinja/budget.hpp"

namespace sluice::jinja {

/// Half-open range of bytes.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct Text {
  std::string bytes;                 ///< normally UTF-8, but any bytes are allowed
  std::vector<ByteRange> untrusted;  ///< sorted, disjoint, not empty, not touching
  bool escaped = false;              ///< result of `safe` or `escape`: + escapes the other side

  bool any_untrusted() const { return !untrusted.empty(); }
  /// Whether [begin, end) touches an untrusted range.
  bool untrusted_in(std::size_t begin, std::size_t end) const;
};

using TextPtr = std::shared_ptr<const Text>;

/// Builds a text piece by piece within a budget.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}

  void append(std::string_view trusted) { append(trusted, false); }
  void append(std::string_view bytes, bool untrusted);
  void append(const Text& text) { append(text, 0, text.bytes.size()); }
  /// Bytes [begin, end) of `text` with their marks.
  void append(const Text& text, std::size_t begin, std::size_t end);
  void append_code_point(char32_t code_point, bool untrusted);
  /// `count` times the same piece.
  void repeat(const Text& text, std::size_t count);

  std::size_t size() const { return text_.bytes.size(); }
  const Text& text() const { return text_; }
  void set_escaped(bool escaped) { text_.escaped = escaped; }
  /// Marks everything so far untrusted if any of it is.
  void spread_marks();
  Text take();
  TextPtr take_shared() { return std::make_shared<const Text>(take()); }

 private:
  void grow(std::size_t bytes);
  void mark(std::size_t begin, std::size_t end);

  Budget* budget_;
  Text text_;
};

/// Bytes [begin, end) of `text`.
TextPtr sub_text(Budget& budget, const Text& text, std::size_t begin, std::size_t end);

}  // namespace sluice::jinja
