#include "engine/chat/jinja/text.hpp"

#include <algorithm>
#include <utility>

#include "engine/chat/jinja/unicode.hpp"

namespace sluice::jinja {

namespace {

/// First range that ends after `position`.
auto first_after(const std::vector<ByteRange>& ranges, std::size_t position) {
  return std::upper_bound(ranges.begin(), ranges.end(), position,
                          [](std::size_t at, const ByteRange& range) { return at < range.end; });
}

}  // namespace

bool Text::untrusted_in(std::size_t begin, std::size_t end) const {
  const auto range = first_after(untrusted, begin);
  return range != untrusted.end() && range->begin < end;
}

void TextBuilder::append(std::string_view bytes, bool untrusted) {
  if (bytes.empty()) return;
  grow(bytes.size());
  const std::size_t begin = text_.bytes.size();
  text_.bytes += bytes;
  if (untrusted) mark(begin, text_.bytes.size());
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  grow(end - begin);
  const std::size_t target = text_.bytes.size();
  text_.bytes.append(text.bytes, begin, end - begin);
  for (auto range = first_after(text.untrusted, begin);
       range != text.untrusted.end() && range->begin < end; ++range) {
    mark(std::max(range->begin, begin) - begin + target,
         std::min(range->end, end) - begin + target);
  }
}

void TextBuilder::append_code_point(char32_t code_point, bool untrusted) {
  char bytes[4];
  append(std::string_view(bytes, encode_utf8(code_point, bytes)), untrusted);
}

void TextBuilder::repeat(const Text& text, std::size_t count) {
  if (text.bytes.empty() || count == 0) return;
  if (count > (std::size_t{1} << 40) / text.bytes.size()) budget_->check_length(~std::size_t{0});
  budget_->check_length(text_.bytes.size() + text.bytes.size() * count);
  for (std::size_t i = 0; i < count; ++i) append(text);
}

void TextBuilder::spread_marks() {
  if (text_.any_untrusted()) text_.untrusted = {{0, text_.bytes.size()}};
}

Text TextBuilder::take() {
  return std::exchange(text_, Text{});
}

void TextBuilder::grow(std::size_t bytes) {
  budget_->check_length(text_.bytes.size() + bytes);
  budget_->allocate(bytes);
}

void TextBuilder::mark(std::size_t begin, std::size_t end) {
  if (!text_.untrusted.empty() && text_.untrusted.back().end == begin) {
    text_.untrusted.back().end = end;
    return;
  }
  budget_->allocate(sizeof(ByteRange));
  text_.untrusted.push_back({begin, end});
}

TextPtr sub_text(Budget& budget, const Text& text, std::size_t begin, std::size_t end) {
  TextBuilder builder(budget);
  builder.append(text, begin, end);
  builder.set_escaped(text.escaped);
  return builder.take_shared();
}

}  // namespace sluice::jinja
